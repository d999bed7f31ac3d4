import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readSecretFile } from '../../src/cli/secret-file.ts'

describe('a file with a secret', () => {
  let folder: string

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nfltr-secret-'))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  test('is read where nobody else can read it', async () => {
    const file = join(folder, 'secret')
    await writeFile(file, 'word\n', { mode: 0o600 })
    expect(await readSecretFile(file, '--file')).toBe('word\n')

    await chmod(file, 0o640)
    await expect(readSecretFile(file, '--file')).rejects.toMatchObject({ code: 'insecure_permissions' })
  })

  test('is named by its flag, with what to do, where it cannot be one', async () => {
    const large = join(folder, 'large')
    await writeFile(large, 'x'.repeat(64 * 1024 + 1), { mode: 0o600 })

    for (const file of [join(folder, 'none'), folder, large]) {
      await expect(readSecretFile(file, '--file')).rejects.toMatchObject({
        code: 'invalid_argument',
        hint: expect.stringContaining('Name a file'),
        details: { argument: '--file' },
      })
    }
  })
})
