import { once } from 'node:events'
import { writeSync } from 'node:fs'
import { agentWait } from '../../src/cli/commands/agent-wait.ts'
import { terminalIo } from '../../src/cli/io.ts'
import { scriptedHub } from '../control/scripted-hub.ts'

/**
 * `agent wait` over a hub that answers with one result of so many bytes, as a process of its own: it says `confirmed` on
 * standard error for each word of it that reaches the hub. With `--after-input` the answer comes when standard input ends.
 */
const [bytes, ...flags] = process.argv.slice(2)
const hub = scriptedHub()
hub.answer = async () => {
  if (flags.includes('--after-input')) await once(process.stdin.resume(), 'end')
  const text = 'x'.repeat(Number(bytes))
  const result = { delivery_id: 1, agent_id: 'agt_1', turn: 1, outcome: 'completed', text }
  return { body: JSON.stringify({ results: [result], events: [], still_running: [], unconfirmed: [], facts: {} }) }
}
hub.confirm = async () => void writeSync(2, 'confirmed\n')
const io = terminalIo({ isJson: flags.includes('--json') })
await agentWait({
  io,
  connect: async () => hub,
  openReceipt: () => Promise.reject(new Error('nobody asks')),
}).parseAsync(['agt_1'], { from: 'user' })
