import type { Agent } from '../../src/core/task-record.ts'
import type { EntryRecord } from '../../src/hub/records.ts'
import { recordsOn } from '../scene.ts'
import type { Checker } from './checker.ts'

/** Every spawn makes exactly one agent, and every turn ends in exactly one outcome (D10). */
export function oneOutcome(): Checker {
  return {
    name: 'one-outcome',
    atEnd({ workloads }, fail) {
      for (const { hub, spawned } of workloads) {
        const agents = recordsOn<Agent>(hub.disk, 'hub/agent/').map(({ value }) => value)
        const known = new Set(agents.map(({ agentId }) => agentId))
        for (const [mark, agentId] of spawned) {
          if (!known.has(agentId)) fail(`${hub.name} answered the spawn ${mark} with ${agentId} and has no such agent`)
        }
        const ends = new Map<string, number>()
        for (const { value } of recordsOn<EntryRecord>(hub.disk, 'hub/entry/')) {
          if (value.kind === 'result' && !value.isLate) ends.set(value.taskId, (ends.get(value.taskId) ?? 0) + 1)
        }
        for (const agent of agents) {
          for (const task of agent.tasks) {
            const count = ends.get(task.taskId) ?? 0
            if (count !== 1) fail(`turn ${task.turn} of ${agent.agentId} of ${hub.name} has ${count} outcomes`)
          }
        }
        checkBriefs(hub, fail)
      }
    },
  }
}

/** Each brief is unique: one that stands for two turns was taken in twice. */
function checkBriefs(
  hub: { readonly name: string; readonly disk: Parameters<typeof recordsOn>[0] },
  fail: (text: string) => void,
): void {
  const seen = new Set<string>()
  for (const key of hub.disk.keys('hub/brief/')) {
    if (!key.startsWith('hub/brief/')) break
    const text = new TextDecoder().decode(hub.disk.read(key))
    if (seen.has(text)) fail(`${hub.name} took one brief in twice: ${text.slice(0, 60)}`)
    seen.add(text)
  }
}
