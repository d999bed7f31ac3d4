import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const launcher = fileURLToPath(new URL('../../bin/nfltr.js', import.meta.url))

/** Runs the launcher on a machine that says to be another one. */
function launchOn(world: string): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  const preload = `data:text/javascript,${encodeURIComponent(world)}`
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', preload, launcher, 'mesh', 'members', '--json'],
    { encoding: 'utf8' },
  )
  return { status, stdout, stderr }
}

test('Windows itself is refused with the reason', () => {
  const { status, stdout } = launchOn(`Object.defineProperty(process, 'platform', { value: 'win32' })`)

  expect(status).toBe(2)
  expect(JSON.parse(stdout)).toMatchObject({
    error: { code: 'unsupported_platform', hint: expect.stringContaining('WSL2') },
  })
})

test('a Node.js that is too old is refused with the version that is needed, before anything is loaded', () => {
  const { status, stderr } = launchOn(
    `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`,
  )

  expect(status).toBe(2)
  expect(stderr).toContain('22.18')
})
