import type { Check } from '../check.ts'

/** No more turns run on a machine at once than its owner allowed. */
export const withinLimits: Check = {
  name: 'within-limits',
  begin: () => ({
    see(event, fail) {
      if (event.type !== 'turns_running' || event.count <= event.allowed) return
      const { node, count, allowed } = event
      fail({ message: `${count} turns run on ${node}, whose owner allowed ${allowed}` })
    },
  }),
}
