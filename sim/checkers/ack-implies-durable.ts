import { laneOn } from '../scene.ts'
import type { Checker } from './checker.ts'

/** Who acknowledges a message has it on disk: the other side forgets it on that word (D2, D3). */
export function ackImpliesDurable(): Checker {
  return {
    name: 'ack-implies-durable',
    onFrame({ control, disk, remote, life }, fail) {
      if (control?.type !== 'ack') return
      const received = laneOn(disk, remote)?.received ?? 0
      if (received < control.received) {
        fail(`${life} acknowledged ${control.received} to ${remote} and has ${received} on disk`)
      }
    },
  }
}
