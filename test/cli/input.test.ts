import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readText, readTextFile } from '../../src/cli/input.ts'
import { limits } from '../../src/core/limits.ts'

const invalidBytes = Buffer.from([0x61, 0xff, 0x62])

describe('text given to a command', () => {
  let folder: string

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nfltr-input-'))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  test('comes as it is, cut nowhere between its pieces, up to its limit', async () => {
    const file = join(folder, 'brief')
    const text = '\ufeff文😀'.padEnd(limits.briefMaxBytes - 7, 'x')
    await writeFile(file, text)
    const halves = [Buffer.from('文').subarray(0, 1), Buffer.from('文').subarray(1)]

    expect(await readTextFile(file, '--brief-file')).toBe(text)
    expect(await readText(Readable.from(halves), 'Standard input')).toBe('文')
  })

  test('is not read on where it never ends', async () => {
    const endless = async function* () {
      for (;;) yield Buffer.alloc(64 * 1024, 'x')
    }
    const refusal = { code: 'invalid_argument', message: expect.stringContaining('is longer than') }

    await expect(readText(endless(), 'Standard input')).rejects.toMatchObject(refusal)
    await expect(readTextFile('/dev/zero', '--brief-file')).rejects.toMatchObject({
      ...refusal,
      details: { argument: '--brief-file' },
    })
  })

  test('is refused where it is not UTF-8, from a file as from standard input', async () => {
    const file = join(folder, 'brief')
    await writeFile(file, invalidBytes)
    const refusal = { code: 'invalid_argument', message: expect.stringContaining('is not valid UTF-8') }

    await expect(readTextFile(file, '--brief-file')).rejects.toMatchObject(refusal)
    await expect(readText(Readable.from([invalidBytes]), 'Standard input')).rejects.toMatchObject(refusal)
  })

  test('names the flag where the file is not there', async () => {
    await expect(readTextFile(join(folder, 'none'), '--brief-file')).rejects.toMatchObject({
      code: 'invalid_argument',
      hint: 'Name a file that is there.',
      details: { argument: '--brief-file' },
    })
    await expect(readTextFile(folder, '--brief-file')).rejects.toMatchObject({
      hint: 'Name a file that this user may read.',
      details: { argument: '--brief-file' },
    })
  })
})
