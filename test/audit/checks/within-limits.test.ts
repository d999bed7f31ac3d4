import { expect, test } from 'vitest'
import { withinLimits } from '../../../src/audit/checks/within-limits.ts'

test('one turn more than the owner allowed is one too many', () => {
  const found: string[] = []
  const watch = withinLimits.begin()
  for (const count of [1, 2, 3]) {
    watch.see({ type: 'turns_running', node: 'vm1', count, allowed: 2 }, ({ message }) => found.push(message))
  }

  expect(found).toEqual(['3 turns run on vm1, whose owner allowed 2'])
})
