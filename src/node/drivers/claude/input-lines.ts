/**
 * Lines for Claude Code's standard input (`--input-format stream-json`): messages of the user, control requests and
 * answers to its own. A line that is not JSON would end the program, so all of them are made here.
 */
const encoder = new TextEncoder()

/** Begins the id of every interrupt, so that its answer is known from others. */
export const interruptPrefix = 'interrupt_'

/**
 * The uuid under which a message goes to the program: the same for the same message whatever is restarted, so that a
 * repeat is taken in once (rule 22).
 *
 * @returns `undefined` for an id without 32 hex digits, which no hub gives
 */
export function messageUuid(messageId: string): string | undefined {
  const digits = /^msg_([0-9a-f]{32})$/.exec(messageId)?.[1]
  if (digits === undefined) return undefined
  // Version 4, variant 1: the program takes nothing else for a uuid.
  const variant = ((Number.parseInt(digits.slice(16, 17), 16) & 0x3) | 0x8).toString(16)
  return [
    digits.slice(0, 8),
    digits.slice(8, 12),
    `4${digits.slice(13, 16)}`,
    `${variant}${digits.slice(17, 20)}`,
    digits.slice(20),
  ].join('-')
}

/**
 * A message for the model. The program takes a text that begins with a slash for a command of its own, whatever is
 * switched off, and answers it itself: a line feed in front makes it words again.
 */
export function userLine(message: { readonly uuid: string; readonly text: string }): Uint8Array {
  const { uuid, text } = message
  const content = text.startsWith('/') ? `\n${text}` : text
  return line({ type: 'user', message: { role: 'user', content }, parent_tool_use_id: null, uuid })
}

/** Interrupts what runs and withdraws what is queued: a stop wins over a message that waits. */
export function interruptLine(requestId: string): Uint8Array {
  return line({
    type: 'control_request',
    request_id: requestId,
    request: { subtype: 'interrupt', cancel_queued: true },
  })
}

/** The no to a request of the program, in the words its kind understands. Unanswered, a request blocks the turn for ever. */
export function refusalLine(request: { readonly requestId: string; readonly subtype: string }): Uint8Array {
  const { requestId, subtype } = request
  const answers: Readonly<Record<string, unknown>> = {
    can_use_tool: { behavior: 'deny', message: 'This machine does not allow that.' },
    elicitation: { action: 'decline' },
  }
  const response =
    answers[subtype] === undefined
      ? { subtype: 'error', request_id: requestId, error: 'This host does not answer requests of this kind.' }
      : { subtype: 'success', request_id: requestId, response: answers[subtype] }
  return line({ type: 'control_response', response })
}

function line(value: unknown): Uint8Array {
  return encoder.encode(`${JSON.stringify(value)}\n`)
}
