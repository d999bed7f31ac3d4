import type { TaskEvent } from '../../src/core/model.ts'
import type { EntryRecord } from '../../src/hub/records.ts'
import { recordsOn, type Scene } from '../scene.ts'
import type { Checker, Fail } from './checker.ts'

/** The log of an agent is numbered without gaps, each number says one thing, and each line is in it once (C1, C2). */
export function logSequence(): Checker {
  const said = new Map<string, string>()
  return {
    name: 'log-sequence',
    onFrame({ message, life }, fail) {
      if (message?.work.type !== 'task_events') return
      const { ref, events } = message.work
      for (const event of events) {
        const key = `${ref.agentId}/${event.seq}`
        const text = `${event.turn} ${event.type} ${event.text ?? ''}`
        const known = said.get(key)
        if (known !== undefined && known !== text)
          fail(`${life} said two things as line ${event.seq} of ${ref.agentId}`)
        said.set(key, text)
      }
    },
    atEnd(scene, fail) {
      for (const hub of scene.hubs) {
        const logs = Map.groupBy(recordsOn<TaskEvent>(hub.disk, 'hub/event/'), ({ key }) => key.split('/')[0] ?? '')
        for (const [agentId, lines] of logs) {
          lines.forEach(({ value }, index) => {
            if (value.seq !== index + 1) fail(`the log of ${agentId} has line ${value.seq} where ${index + 1} belongs`)
          })
          checkTexts(
            agentId,
            lines.map(({ value }) => value),
            fail,
          )
        }
        checkWhole(scene, hub.name, fail)
      }
    },
  }
}

function checkTexts(agentId: string, events: readonly TaskEvent[], fail: Fail): void {
  const seen = new Set<string>()
  for (const { type, text } of events) {
    if (type !== 'text' || text === undefined) continue
    if (seen.has(text)) fail(`the log of ${agentId} has the line "${text}" twice`)
    seen.add(text)
  }
}

/** A turn that completed has all its lines in the log. */
function checkWhole({ hubs, deeds }: Scene, hubName: string, fail: Fail): void {
  const hub = hubs.find(({ name }) => name === hubName)
  if (hub === undefined) return
  const texts = new Set(recordsOn<TaskEvent>(hub.disk, 'hub/event/').map(({ value }) => value.text))
  for (const { value } of recordsOn<EntryRecord>(hub.disk, 'hub/entry/')) {
    if (value.kind !== 'result' || value.outcome !== 'completed') continue
    const text = new TextDecoder().decode(hub.disk.read(`hub/text/${String(value.deliveryId).padStart(16, '0')}`))
    const [mark = ''] = text.split(' ')
    const lines = deeds.taken.get(mark)?.[0]?.script.lines ?? 0
    for (let line = 0; line < lines; line++) {
      if (!texts.has(`${mark} line ${line}`)) fail(`line ${line} of ${mark} is not in the log of ${value.agentId}`)
    }
  }
}
