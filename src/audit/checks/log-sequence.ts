import type { Check } from '../check.ts'

/**
 * The log of an agent is numbered without gaps, each number says one thing, each line is in it once, and a turn that
 * completed lacks none of its lines (C1, C2).
 */
export const logSequence: Check = {
  name: 'log-sequence',
  begin() {
    const told = new Map<string, string>()
    const logs = new Map<string, { last: number; readonly texts: Set<string> }>()
    return {
      see(event, fail) {
        if (event.type === 'line_told') {
          const { agentId, seq, text, life } = event
          const key = `${agentId}/${seq}`
          const known = told.get(key)
          if (known !== undefined && known !== text) {
            fail({ agentId, message: `${life} said two things as line ${seq} of ${agentId}` })
          }
          told.set(key, text)
        }
        if (event.type === 'line_kept') {
          const { agentId, seq, text } = event
          const log = logs.get(agentId) ?? { last: 0, texts: new Set<string>() }
          logs.set(agentId, log)
          if (seq !== log.last + 1) {
            fail({ agentId, message: `the log of ${agentId} has line ${seq} where ${log.last + 1} belongs` })
          }
          log.last = seq
          if (text === undefined) return
          if (log.texts.has(text)) fail({ agentId, message: `the log of ${agentId} has the line "${text}" twice` })
          log.texts.add(text)
        }
        if (event.type === 'line_said' && logs.get(event.agentId)?.texts.has(event.text) !== true) {
          const { agentId, text } = event
          fail({ agentId, message: `the line "${text}" is not in the log of ${agentId}` })
        }
      },
    }
  },
}
