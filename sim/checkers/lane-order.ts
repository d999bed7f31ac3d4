import { hashBytes } from '../random.ts'
import type { Checker } from './checker.ts'

/**
 * Messages of a lane are numbered 1, 2, 3 … and say the same whenever they are sent; acknowledgements of one lane never go
 * back. Epochs of a hub rise with every run of it (C1, L2, rule 7).
 */
export function laneOrder(): Checker {
  const bodies = new Map<string, number>()
  const highest = new Map<string, number>()
  const epochs = new Map<string, { epoch: number; life: string }>()
  return {
    name: 'lane-order',
    onFrame({ frame, message, control, process, remote, life }, fail) {
      const lane = `${process}>${remote}`
      if (frame.type === 'open') {
        const last = epochs.get(process)
        if (last !== undefined && (frame.epoch < last.epoch || (frame.epoch === last.epoch && life !== last.life))) {
          fail(`${life} opened a session with epoch ${frame.epoch} after ${last.life} did with ${last.epoch}`)
        }
        epochs.set(process, { epoch: frame.epoch, life })
      }
      if (control?.type === 'ack') {
        const acked = highest.get(`${lane} ack`) ?? 0
        if (control.received < acked) fail(`${life} acknowledged ${control.received} to ${remote} after ${acked}`)
        highest.set(`${lane} ack`, control.received)
      }
      if (message === undefined) return
      const { no, body, isReplaced, work } = message
      const sent = highest.get(lane) ?? 0
      if (no > sent + 1) fail(`${life} sent message ${no} to ${remote} after ${sent}`)
      highest.set(lane, Math.max(sent, no))
      const key = `${lane} ${no}`
      const hash = hashBytes(body, 0)
      const known = bodies.get(key)
      if (known !== undefined && known !== hash && !isReplaced && work.type !== 'void') {
        fail(`${life} sent another message ${no} (${work.type}) to ${remote} than before`)
      }
      bodies.set(key, hash)
    },
  }
}
