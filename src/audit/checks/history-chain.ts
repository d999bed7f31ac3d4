import type { Check } from '../check.ts'

/** A hub's history is only added to: numbered without gaps, each event hashed over all before it, up to the head. */
export const historyChain: Check = {
  name: 'history-chain',
  begin() {
    const last = new Map<string, { readonly seq: number; readonly hash: string }>()
    return {
      see(event, fail) {
        if (event.type === 'decided') {
          const { hubId, hash, computedHash } = event
          const { seq } = event.event
          const expected = (last.get(hubId)?.seq ?? 0) + 1
          if (seq !== expected)
            fail({ seq, message: `the history of ${hubId} has event ${seq} where ${expected} belongs` })
          else if (hash !== computedHash) {
            fail({ seq, message: `event ${seq} of ${hubId} is not the one that the chain was made of` })
          }
          last.set(hubId, { seq, hash })
        }
        if (event.type === 'history_read') {
          const { hubId, head } = event
          const end = last.get(hubId) ?? { seq: 0, hash: '' }
          // Events that were added after the head was read are no fault.
          if (end.seq < head.seq || (end.seq === head.seq && end.hash !== head.hash)) {
            fail({
              seq: head.seq,
              message: `the history of ${hubId} ends at ${end.seq}, and not with its head, ${head.seq}`,
            })
          }
        }
      },
    }
  },
}
