import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'

test('the generated code is that of the .proto files', () => {
  const root = join(import.meta.dirname, '../..')

  const { status, stderr, stdout } = spawnSync('bash', ['scripts/generate-wire', '--check'], {
    cwd: root,
    encoding: 'utf8',
  })

  expect(`${stdout}${stderr}`).toBe('')
  expect(status).toBe(0)
})
