import type { Clock, Timer } from '../ports/clock.ts'

/**
 * Requests of the command that wait for an answer. A command stands still while it waits, and the node that should
 * answer may be away for good: after a bound the keeper answers itself, always with a no (rule 20).
 */
export interface OpenRequests {
  /** Looks at a line of the command for a request, or for one that it takes back. */
  observe(line: Buffer): void
  /** Takes a request off the list; false where it was answered, taken back or never asked. */
  settle(requestId: string): boolean
  /** The command ended: nobody waits any more. */
  clear(): void
}

/** More than this many open at once get their no immediately. */
const openMax = 256

export function openRequests(options: {
  readonly clock: Clock
  readonly answerBoundMs: number
  /** Called with the answer for a request that nobody answered in time. The request counts as settled. */
  readonly onOverdue: (requestId: string, answer: string) => void
}): OpenRequests {
  const { clock, answerBoundMs, onOverdue } = options
  const open = new Map<string, Timer>()

  function settle(requestId: string): boolean {
    const timer = open.get(requestId)
    timer?.cancel()
    open.delete(requestId)
    return timer !== undefined
  }

  function ask(requestId: string, subtype: unknown): void {
    if (open.has(requestId)) return
    const delayMs = open.size >= openMax ? 0 : answerBoundMs
    const timer = clock.after(delayMs, () => {
      if (settle(requestId)) onOverdue(requestId, refusal(requestId, subtype))
    })
    open.set(requestId, timer)
  }

  return {
    observe(line) {
      // Most lines are none of this: look for the word before parsing.
      if (!line.includes('"control_')) return
      const message = parse(line)
      const requestId = message?.['request_id']
      if (message === undefined || typeof requestId !== 'string') return
      if (message['type'] === 'control_request') ask(requestId, subtypeOf(message['request']))
      else if (message['type'] === 'control_cancel_request') settle(requestId)
    },
    settle,
    clear() {
      for (const requestId of [...open.keys()]) settle(requestId)
    },
  }
}

/** The line that says no, in the words each kind of request understands. */
function refusal(requestId: string, subtype: unknown): string {
  const message = 'Nobody answered in time.'
  const answers: Readonly<Record<string, unknown>> = {
    can_use_tool: { behavior: 'deny', message },
    elicitation: { action: 'decline' },
  }
  const answer = typeof subtype === 'string' ? answers[subtype] : undefined
  const response =
    answer === undefined
      ? { subtype: 'error', request_id: requestId, error: message }
      : { subtype: 'success', request_id: requestId, response: answer }
  return `${JSON.stringify({ type: 'control_response', response })}\n`
}

function subtypeOf(request: unknown): unknown {
  return typeof request === 'object' && request !== null && 'subtype' in request ? request.subtype : undefined
}

function parse(line: Buffer): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line.toString('utf8'))
    return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : undefined
  } catch {
    return undefined
  }
}
