import { afterEach, expect, test, vi } from 'vitest'
import { terminalIo } from '../../src/cli/io.ts'
import type { Output } from '../../src/cli/output.ts'
import { NfltrError } from '../../src/core/errors.ts'

function jsonIo() {
  const lines: unknown[] = []
  const output = { write: (text: string) => void lines.push(JSON.parse(text)), failing: () => undefined }
  vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
  return { io: terminalIo({ isJson: true, output: output as unknown as Output }), lines }
}

afterEach(() => {
  vi.restoreAllMocks()
})

test('the failure of a command that answers once is its document', () => {
  const { io, lines } = jsonIo()

  io.fail(new NfltrError('not_found', 'Nothing is there.'))

  expect(lines).toEqual([{ error: expect.objectContaining({ code: 'not_found' }) }])
})

test('the failure of a command that streams is the last line of its stream, and names itself as the others do', () => {
  const { io, lines } = jsonIo()

  io.event({ event: 'ready' })
  io.fail(new NfltrError('not_found', 'Nothing is there.'))

  expect(lines).toEqual([{ event: 'ready' }, { event: 'error', error: expect.objectContaining({ code: 'not_found' }) }])
})
