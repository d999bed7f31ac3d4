import * as z from 'zod'
import { limits } from '../../core/limits.ts'
import { agentStates } from '../../core/model.ts'
import type { ToolName } from '../../ports/hub-api.ts'

/**
 * What each tool takes: one table for the MCP server's `tools/list`, for the hub's check of every call, and for the flags of
 * the command line. Unknown arguments are refused by name.
 */

const utf8 = new TextEncoder()

/** Well-formed Unicode without NUL, bounded in bytes of UTF-8. */
function text(maxBytes: number): z.ZodString {
  return z
    .string()
    .min(1)
    .refine((value) => !value.includes('\0'), 'holds a NUL character')
    .refine((value) => value.isWellFormed(), 'holds a lone surrogate, which is not valid Unicode')
    .refine((value) => utf8.encode(value).length <= maxBytes, `is longer than ${maxBytes} bytes of UTF-8`)
}

const span = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER)
const labels = z
  .record(text(limits.nameMaxBytes), text(limits.labelMaxBytes))
  .refine((value) => Object.keys(value).length <= limits.labelsMax, `has more than ${limits.labelsMax} labels`)
const idempotencyKey = text(limits.idempotencyKeyMaxBytes)
  .optional()
  .describe('The same key gives the same answer and no second effect; another key, or none, is a new call.')
const agentId = text(100).describe('Id from spawn_agent or list_agents.')

export const toolInputs = {
  spawn_agent: z.strictObject({
    brief: text(limits.briefMaxBytes).describe(
      'What to do and what counts as done. The agent sees nothing else. 1 byte to 1 MiB of UTF-8.',
    ),
    title: text(limits.titleMaxBytes).optional().describe('A short name for lists.'),
    machine: text(limits.nameMaxBytes)
      .optional()
      .describe('Name from list_nodes. A hard filter: no other machine is used, and an absent one is waited for.'),
    labels: labels.optional().describe('All of these labels must match the machine.'),
    requires: z
      .array(text(limits.labelMaxBytes))
      .max(limits.capabilitiesMax)
      .optional()
      .describe('All of these capabilities must be declared by the machine.'),
    dir: text(1024)
      .optional()
      .describe(
        "An offered folder's name, or NAME/path below one. Without it the agent works in an empty folder of its own.",
      ),
    model: text(200).optional().describe("Passed to the agent's CLI as it is. Without it the CLI's own default holds."),
    effort: text(64).optional().describe("Passed to the agent's CLI as it is."),
    max_budget_usd: z.number().positive().max(1_000_000).optional().describe('Per turn.'),
    max_turns: z.number().int().positive().max(1_000_000).optional().describe('Model round trips per turn.'),
    timeout_ms: span
      .optional()
      .describe('How long to wait for a machine with a free slot. Default 600000; 0: now or never.'),
    deadline_ms: span.min(1).optional().describe("The turn's longest running time, in time the machine is awake."),
    lost_after_ms: span
      .min(1)
      .optional()
      .describe(
        'How long the machine may be silent before the agent counts as lost; 6000 at least. Without it what the machine said, else 150000.',
      ),
    idempotency_key: idempotencyKey,
  }),
  wait_for_agents: z.strictObject({
    agent_ids: z.array(agentId).max(1000).optional().describe('Only these agents. Without it: all, and events too.'),
    mode: z
      .enum(['any', 'all'])
      .optional()
      .describe('any (default): return when one has ended. all: when all of them have.'),
    events: z.boolean().optional().describe('Whether events are returned too. Default: true without agent_ids.'),
    timeout_ms: span.optional().describe('Longest wait. Without it: until something arrives.'),
    max_bytes: z
      .number()
      .int()
      .min(limits.replyMinBytes)
      .max(limits.replyMaxBytes)
      .optional()
      .describe('Bound of the reply. Default 40000.'),
    idempotency_key: idempotencyKey,
  }),
  get_result: z.strictObject({
    agent_id: agentId.optional(),
    turn: z.number().int().positive().optional().describe('Default: the latest.'),
    delivery_id: z.number().int().positive().optional().describe('Any entry by its number, instead of agent_id.'),
    offset: z
      .number()
      .int()
      .nonnegative()
      .optional()
      .describe('Byte of the text to start at: next_offset of the page before.'),
    max_bytes: z.number().int().min(limits.replyMinBytes).max(limits.replyMaxBytes).optional(),
  }),
  send_message: z.strictObject({
    agent_id: agentId,
    text: text(limits.messageTextMaxBytes).describe(
      'Joins the running turn, or starts a new one in the same session and workspace.',
    ),
    idempotency_key: idempotencyKey,
  }),
  stop_agent: z.strictObject({
    agent_id: agentId,
    reason: text(limits.detailMaxBytes).optional(),
    idempotency_key: idempotencyKey,
  }),
  list_agents: z.strictObject({
    state: z.array(z.enum(agentStates)).max(agentStates.length).optional(),
    cursor: text(200).optional(),
    limit: z.number().int().min(1).max(limits.listMax).optional(),
  }),
  list_nodes: z.strictObject({
    labels: labels.optional(),
    cursor: text(200).optional(),
  }),
} satisfies Record<ToolName, z.ZodObject>

export type SpawnInput = z.infer<typeof toolInputs.spawn_agent>
export type WaitInput = z.infer<typeof toolInputs.wait_for_agents>
export type GetResultInput = z.infer<typeof toolInputs.get_result>
export type SendInput = z.infer<typeof toolInputs.send_message>
export type StopInput = z.infer<typeof toolInputs.stop_agent>
export type ListAgentsInput = z.infer<typeof toolInputs.list_agents>
export type ListNodesInput = z.infer<typeof toolInputs.list_nodes>
