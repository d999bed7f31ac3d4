import fc from 'fast-check'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { terminalIo } from '../../src/cli/io.ts'
import { printable } from '../../src/cli/printable.ts'
import { NfltrError } from '../../src/core/errors.ts'

/** What a terminal would obey, or a reader would not see: C0 but line feed and tab, C1, bidi controls, tag characters. */
const dangerous = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/u

const hostile = 'one\u001b]0;title\u0007\u001b[2J two\u009b31m\r three\u202efour\u{e0041}\u{e0042}\ttab\nline'

afterEach(() => {
  vi.restoreAllMocks()
})

/** What the given calls put on the terminal. */
function written(isJson: boolean, say: (io: ReturnType<typeof terminalIo>) => void): string {
  let text = ''
  for (const stream of [process.stdout, process.stderr]) {
    vi.spyOn(stream, 'write').mockImplementation((chunk) => {
      text += String(chunk)
      return true
    })
  }
  say(terminalIo({ isJson }))
  vi.restoreAllMocks()
  return text
}

describe('text of others on a terminal', () => {
  test('has nothing that a terminal obeys or a reader does not see, and keeps the rest', () => {
    const point = fc.oneof(fc.integer({ min: 0, max: 0x2100 }), fc.integer({ min: 0xe0000, max: 0xe0100 }))
    fc.assert(
      fc.property(fc.array(point), (points) => {
        const text = String.fromCodePoint(...points)
        const shown = printable(text)

        expect(shown).not.toMatch(dangerous)
        expect(shown).toBe([...text].filter((character) => !dangerous.test(character)).join(''))
      }),
    )
  })

  test('is cleaned by every way in which people are told something', () => {
    const text = written(false, (io) => {
      io.answer({}, hostile)
      io.event({ event: 'log' }, hostile)
      io.note(hostile)
      io.fail(new NfltrError('not_found', hostile, { hint: hostile }))
    })

    expect(text.match(/three/g)).toHaveLength(5)
    expect(text).not.toMatch(dangerous)
  })

  test('goes to programs as it came, and with escapes for what JSON escapes', () => {
    const text = written(true, (io) => io.event({ event: 'log', text: hostile }))

    expect(JSON.parse(text)).toEqual({ event: 'log', text: hostile })
    expect(text).not.toContain('\u001b')
  })
})
