import type { ExitProof } from './journal.ts'

/**
 * The words of the domain that hub, node, tools and wire share. An *agent* is a session and a workspace on one node;
 * turn n of an agent is one *task*; a task has *attempts* with a rising epoch.
 */

export const outcomes = ['completed', 'failed', 'stopped', 'node_lost', 'rejected'] as const
export type Outcome = (typeof outcomes)[number]

/** Why a task did not complete: a closed list, part of the public interface. @see docs/reference/errors.md */
export const reasons = [
  'tools_not_allowed',
  'budget_exhausted',
  'max_turns',
  'deadline',
  'no_machine',
  'declined',
  'rate_limited',
  'model_error',
  'model_refused',
  'auth_lost',
  'not_logged_in',
  'claude_missing',
  'claude_too_old',
  'unclean_config',
  'sandbox_unavailable',
  'repo_not_allowed',
  'monitors_not_allowed',
  'dir_not_offered',
  'workspace',
  'git_auth',
  'push_rejected',
  'disk_full',
  'stalled',
  'truncated_stream',
  'empty_result',
  'session_missing',
  'crashed',
  'queue_full',
  'outbox_full',
  'dir_busy',
  'reservation_gone',
  'journal_damaged',
  'revoked',
  'machine_changed',
  'interrupted',
  'dependency_failed',
  'dead_letter',
] as const
export type Reason = (typeof reasons)[number]

/** Declines that pass by themselves: the spawn waits within its `timeout_ms`. Every other decline is for good. */
export const temporaryDeclines: readonly Reason[] = [
  'declined',
  'dir_busy',
  'disk_full',
  'queue_full',
  'outbox_full',
  'reservation_gone',
]

export const agentStates = [
  'queued',
  'starting',
  'running',
  'needs_you',
  'paused',
  'stopping',
  'reviewing',
  'idle',
  'closed',
] as const
export type AgentState = (typeof agentStates)[number]

/** The seven stages of a task (architecture, section 6). */
export const stages = ['quote', 'approve', 'execute', 'progress', 'review', 'settle', 'receipt'] as const
export type Stage = (typeof stages)[number]

/** What one turn used. */
export interface Usage {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly costUsd: number
  readonly durationMs: number
}

export const noUsage: Usage = { inputTokens: 0, outputTokens: 0, costUsd: 0, durationMs: 0 }

/** What a spawn or a continuation asks for. What nobody set is absent and stays so: no model, effort or budget is made up. */
export interface TurnRequest {
  readonly brief: string
  readonly model?: string
  readonly effort?: string
  readonly maxBudgetUsd?: number
  readonly maxTurns?: number
  readonly deadlineMs?: number
}

/** Where a spawn may run. */
export interface Filters {
  readonly machine?: string
  readonly labels: Readonly<Record<string, string>>
  readonly requires: readonly string[]
  /** An offer's name, or `NAME/path` below one. */
  readonly dir?: string
}

export interface Offer {
  readonly name: string
  readonly mode: 'rw' | 'ro'
}

/** What a node says of itself, and what its owner allowed. Text of others is data: every field has a bound on the wire. */
export interface NodeCard {
  readonly description: string
  readonly labels: Readonly<Record<string, string>>
  readonly capabilities: readonly string[]
  readonly offers: readonly Offer[]
  readonly maxAgents: number
  readonly allows: {
    readonly allTools: boolean | 'listed'
    readonly monitors: boolean
    readonly repos: readonly string[]
  }
  readonly credential: 'none' | 'api_key' | 'oauth_token' | 'auth_token' | 'env'
  readonly version: string
  readonly claudeVersion?: string
  /** How long this node may be silent before its agents count as lost, where a spawn does not say. */
  readonly lostAfterMs?: number
  readonly os: string
  readonly arch: string
  /** Why no spawn can run here at all, until the owner changes something; a node with it has no slots. */
  readonly unavailable?: { readonly reason: Reason; readonly message: string }
}

export interface Capacity {
  readonly free: number
  readonly running: number
  readonly queued: number
}

export type MessageState = 'taken' | 'not_taken' | 'interrupted'

/** A message written into a turn, and what became of it by the turn's end (rule 22). */
export interface MessageReport {
  readonly messageId: string
  readonly state: MessageState
}

export interface DeniedTool {
  readonly tool: string
  /** The tool's input as JSON text, cut to a bound. */
  readonly input: string
}

/** How one attempt ended, as its node recorded it. The first such record at the node is the only one (rule 23). */
export interface AttemptResult {
  readonly outcome: 'completed' | 'failed' | 'stopped' | 'rejected'
  readonly reason?: Reason
  /** The whole answer: the last text of the turn, never cut. */
  readonly text: string
  readonly hint?: string
  readonly denied: readonly DeniedTool[]
  readonly usage: Usage
  readonly messages: readonly MessageReport[]
  readonly sessionId?: string
  /** Absent where no process of the attempt ever ran. */
  readonly exitProof?: ExitProof
  /** The stop command that this end answers, where one was given. */
  readonly stopCommandId?: string
  /** Further facts, for people: exit code, the CLI's own words. Bounded. */
  readonly details: Readonly<Record<string, string>>
}

export const eventTypes = [
  'text',
  'reasoning',
  'tool_call',
  'tool_result',
  'usage',
  'model_retry',
  'message',
  'progress',
  'state',
] as const
export type TaskEventType = (typeof eventTypes)[number]

/** One line of an agent's log. `seq` is gapless per agent, given by the node. */
export interface TaskEvent {
  readonly seq: number
  /** Wall clock at the node, milliseconds since 1970. */
  readonly atMs: number
  readonly turn: number
  readonly type: TaskEventType
  /** For people and for `text so far`; bounded to `limits.eventTextMaxBytes`. */
  readonly text?: string
  /** Small named facts: tool name, message id, state. Bounded. */
  readonly fields: Readonly<Record<string, string>>
}
