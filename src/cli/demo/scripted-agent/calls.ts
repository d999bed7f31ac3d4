import { randomUUID } from 'node:crypto'
import { toolResultLine } from './lines.ts'
import { type Decision, decide } from './permissions.ts'
import type { Call } from './scenario.ts'
import { builtinTools, checkInput, failed, type Outcome, runTool } from './tools.ts'
import type { Turn } from './turn.ts'
import { isRecord } from './values.ts'

/** The calls of one answer, one after the other: permission, the work, and the line with what came of it. */

export interface PlacedCall extends Call {
  readonly id: string
  readonly input: Readonly<Record<string, unknown>>
}

const rejected =
  "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."

const stoppedWhileRunning =
  ' Correction to the text above: this call was stopped while running, not refused before it ran. It may have run in part or in full, and its changes may have been written. No permission prompt was involved. Work it started elsewhere (a remote command, a background process) may still be running, so check before starting the same work again. The instruction to stop and wait still stands.'

/** @returns how many results were printed: an abort ends the list after the call it met */
export async function runCalls(turn: Turn, calls: readonly PlacedCall[]): Promise<number> {
  let printed = 0
  for (const call of calls) {
    await runCall(turn, call)
    printed += 1
    if (turn.signal.aborted) break
  }
  return printed
}

async function runCall(turn: Turn, call: PlacedCall): Promise<void> {
  const { session } = turn
  if (!session.tools().includes(call.tool)) {
    const disabled = (builtinTools as readonly string[]).includes(call.tool)
    const why = disabled ? `. ${call.tool} is disabled for this session, in subagents as well as here.` : ''
    const message = `Error: No such tool available: ${call.tool}${why}`
    finish(turn, call, { ...failed(`<tool_use_error>${message}</tool_use_error>`), toolUseResult: message })
    return
  }
  if (!call.tool.startsWith('mcp__')) checkInput(call.tool, call.input)
  const decision: Decision =
    call.deny === undefined
      ? decide(call.tool, call.input, { ...session.permissions(), cwd: session.cwd })
      : { allow: false, message: call.deny }
  if (decision.allow) {
    const meta = { permission_decision: { decision: 'accept', source: 'config', reason_type: decision.reason } }
    await perform(turn, call, { input: call.input, meta })
  } else if (session.flags.askHost && call.deny === undefined) await askHost(turn, call)
  else deny(turn, call, decision)
}

async function perform(
  turn: Turn,
  call: PlacedCall,
  granted: { input: Readonly<Record<string, unknown>>; meta: object },
): Promise<void> {
  const { session, signal } = turn
  const outcome = call.tool.startsWith('mcp__')
    ? await session.mcp.call(call.tool, granted.input, { toolUseId: call.id, signal })
    : await runTool(call.tool, granted.input, { cwd: session.cwd, sessionId: session.id, signal })
  if (outcome.aborted !== true) finish(turn, call, outcome, granted.meta)
  else if (session.ending === 'SIGTERM') finish(turn, call, failed('Exit code 137'), granted.meta)
  else stop(turn, call, session.ending === undefined ? rejected + stoppedWhileRunning : rejected)
}

async function askHost(turn: Turn, call: PlacedCall): Promise<void> {
  const description = call.input['description'] ?? call.tool
  const request = {
    tool_name: call.tool,
    display_name: call.tool,
    input: call.input,
    description,
    tool_use_id: call.id,
  }
  const answer = await turn.session.host.ask({ subtype: 'can_use_tool', ...request }, turn.signal)
  if (answer.kind === 'aborted') {
    turn.transcript.denials.push(denial(call))
    stop(turn, call, rejected)
    return
  }
  const response = answer.kind === 'answer' ? answer.response : {}
  const { behavior, updatedInput, message, interrupt } = response
  if (behavior === 'allow') {
    const input = isRecord(updatedInput) ? updatedInput : call.input
    await perform(turn, call, {
      input,
      meta: { permission_decision: { decision: 'accept', source: 'user_temporary' } },
    })
    return
  }
  turn.transcript.denials.push(denial(call))
  if (interrupt === true) {
    turn.session.abortTurn()
    stop(turn, call, rejected)
    return
  }
  const closed = 'Tool permission request failed: AbortError: Tool permission stream closed before response received'
  const said = answer.kind === 'closed' ? closed : String(message ?? response['error'] ?? 'denied')
  const meta = {
    non_execution_kind: 'permission-rule',
    permission_decision: { decision: 'reject', source: 'user_reject' },
  }
  finish(turn, call, failed(said), meta)
}

function deny(turn: Turn, call: PlacedCall, decision: Extract<Decision, { allow: false }>): void {
  turn.transcript.denials.push(denial(call))
  turn.session.write({
    type: 'system',
    subtype: 'permission_denied',
    tool_name: call.tool,
    tool_use_id: call.id,
    ...(decision.reasonType === undefined ? {} : { decision_reason_type: decision.reasonType }),
    ...(decision.reason === undefined ? {} : { decision_reason: decision.reason }),
    message: decision.message,
    uuid: randomUUID(),
    session_id: turn.session.id,
  })
  const meta = { non_execution_kind: 'user-rejected', permission_decision: { decision: 'reject', source: 'config' } }
  finish(turn, call, failed(decision.message), meta)
}

function stop(turn: Turn, call: PlacedCall, message: string): void {
  const outcome = { content: message, isError: true, toolUseResult: 'User rejected tool use', value: message }
  finish(turn, call, outcome, { non_execution_kind: 'user-rejected' })
}

function finish(turn: Turn, call: PlacedCall, outcome: Outcome, meta?: object): void {
  const { content, isError, toolUseResult } = outcome
  const facts = { sessionId: turn.session.id, toolUseId: call.id, content, isError, toolUseResult }
  turn.session.write(toolResultLine(meta === undefined ? facts : { ...facts, meta }))
  if (call.as !== undefined) turn.results.set(call.as, outcome.value)
}

function denial(call: PlacedCall): object {
  return { tool_name: call.tool, tool_use_id: call.id, tool_input: call.input }
}
