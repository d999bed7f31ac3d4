import { describe, expect, test } from 'vitest'
import { checkAddresses } from '../../src/cli/compose/address-settings.ts'

describe('an address on the command line', () => {
  test('is refused under the name of its flag', () => {
    for (const [key, flag] of [
      ['listen', '--listen'],
      ['peers', '--peer'],
    ] as const) {
      expect(() => checkAddresses(key, ['nowhere'], 'the command line', flag)).toThrow(
        expect.objectContaining({ code: 'invalid_argument', details: { argument: flag } }),
      )
    }
  })
})
