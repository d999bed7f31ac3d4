import type { Document } from './agent-call.ts'

/** What `agent wait` gives to people: everything that its reply carries or names, since all of it is confirmed after. */
export interface WaitReply {
  readonly results: readonly Document[]
  readonly events: readonly Document[]
  /** What earlier replies carried and nobody may have read. */
  readonly unconfirmed: readonly Document[]
  readonly running: readonly Document[]
  /** Entries that wait still, for another call. */
  readonly undelivered: number
  /** What the hub adds about its facts. */
  readonly note?: string
  /** The hub has not heard all of its nodes yet. */
  readonly isCatchingUp: boolean
  /** Whether only some agents were asked about. */
  readonly isOfSome: boolean
  /** The hub that was named on the command line. */
  readonly hubId?: string
}

export function waitText(reply: WaitReply): string {
  const { results, events, unconfirmed, running, isOfSome } = reply
  const parts = [...results.map(resultText), ...events.map(eventText)]
  if (unconfirmed.length > 0) parts.push(unconfirmedText(reply))
  if (running.length > 0) parts.push(`still running: ${running.map((agent) => String(agent['agent_id'])).join(', ')}`)
  if (parts.length === 0) {
    parts.push(
      isOfSome ? 'None of them runs, and nothing of theirs is waiting.' : 'Nothing runs and nothing is waiting.',
    )
  }
  if (reply.undelivered > 0) parts.push(`waiting to be read: ${reply.undelivered}; see them with: nfltr agent wait`)
  if (reply.note !== undefined) parts.push(reply.note)
  if (reply.isCatchingUp) parts.push('The hub has not heard all of its nodes yet: more may come.')
  return parts.join('\n')
}

/** Which result it is, how it ended, and all that a reader has to know before its text. */
export function resultLines(result: Document): readonly string[] {
  const why = result['reason'] ?? (result['details'] as Document | undefined)?.['ground']
  const reason = why === undefined ? '' : ` (${String(why)})`
  const machine = result['machine'] === undefined ? '' : ` on ${String(result['machine'])}`
  const lines = [
    `== ${String(result['agent_id'])} turn ${String(result['turn'])}: ${String(result['outcome'])}${reason}${machine}`,
  ]
  if (result['hint'] !== undefined) lines.push(`   hint: ${String(result['hint'])}`)
  if (result['late'] === true) lines.push('   late: it came after its turn had been given out as lost')
  if (result['maybe_seen'] === true) {
    lines.push('   maybe seen: the store of the hub or of the node was put back, so it may have been read before')
  }
  if (result['superseded'] === true) lines.push('   superseded: another attempt at its turn took its place')
  const messages = Array.isArray(result['messages']) ? (result['messages'] as Document[]) : []
  for (const message of messages.filter(({ state }) => state !== 'taken')) {
    lines.push(`   message ${String(message['message_id'])}: ${String(message['state']).replaceAll('_', ' ')}`)
  }
  return lines
}

function resultText(result: Document): string {
  return [...resultLines(result), String(result['text'])].join('\n')
}

function eventText(event: Document): string {
  return `== ${String(event['kind'])} of ${String(event['source'])} at ${String(event['at'])}\n${String(event['text'])}`
}

function unconfirmedText({ unconfirmed, hubId }: WaitReply): string {
  const hub = hubId === undefined ? '' : ` --hub-id ${hubId}`
  const rows = unconfirmed.map((entry) => {
    const agent = entry['agent_id'] === undefined ? '' : ` of ${String(entry['agent_id'])}`
    const number = String(entry['delivery_id'])
    return `   ${String(entry['kind'])} ${number}${agent}: nfltr agent result --delivery-id ${number}${hub}`
  })
  return ['== unconfirmed: given before, and perhaps read by nobody. Read each with its command:', ...rows].join('\n')
}
