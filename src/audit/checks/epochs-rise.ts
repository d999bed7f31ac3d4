import type { Check } from '../check.ts'

/** Epochs of a hub rise with every run of it, and no node goes back to an older one (L2, L7, rule 7). */
export const epochsRise: Check = {
  name: 'epochs-rise',
  begin() {
    const opened = new Map<string, { readonly epoch: number; readonly life: string }>()
    const admitted = new Map<string, number>()
    return {
      see(event, fail) {
        if (event.type === 'opened') {
          const { process, life, epoch } = event
          const last = opened.get(process)
          if (last !== undefined && (epoch < last.epoch || (epoch === last.epoch && life !== last.life))) {
            fail({ message: `${life} opened a session with epoch ${epoch} after ${last.life} did with ${last.epoch}` })
          }
          opened.set(process, { epoch, life })
        }
        if (event.type === 'admitted') {
          const { node, hubId, epoch } = event
          const highest = admitted.get(`${node} ${hubId}`) ?? 0
          if (epoch < highest) fail({ message: `${node} took ${hubId} on at epoch ${epoch} after ${highest}` })
          admitted.set(`${node} ${hubId}`, Math.max(highest, epoch))
        }
      },
    }
  },
}
