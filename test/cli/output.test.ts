import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const command = join(import.meta.dirname, 'scripted-wait.ts')
const main = join(import.meta.dirname, '../../src/cli/main.ts')

/** A file system of its own, with room for 64 KiB, in a namespace that ends with the command. */
const small = ['unshare', '-rm', 'sh', '-c', 'mount -t tmpfs -o size=64k none "$0" && exec "$@" > "$0/answer"']
const hasSmall = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0

interface Ended {
  readonly code: number | null
  readonly stderr: string
}

async function ended(child: ChildProcess): Promise<Ended> {
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stderr }
}

/** Runs a program whose standard output is what the shell opens. */
function redirected(to: string, program: readonly string[]): Promise<Ended> {
  const child = spawn('sh', ['-c', `exec "$@" > ${to}`, 'sh', process.execPath, ...program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  return ended(child)
}

describe('what could not be written', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nfltr-output-'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  test('is confirmed where it could be', async () => {
    expect(await redirected('/dev/null', [command, '10'])).toEqual({
      code: 0,
      stderr: expect.stringContaining('confirmed'),
    })
  })

  test.each([[[]], [['--json']]])('for want of room is named, and not confirmed %j', async (flags) => {
    const { code, stderr } = await redirected('/dev/full', [command, '10', ...flags])

    expect(stderr).toMatch(/^nfltr: Standard output could not be written: no space was left\.\n {2}.+\n$/)
    expect(code).toBe(1)
  })

  test.skipIf(!hasSmall)('whole, where half of it found room, is not confirmed either', async () => {
    const [program = '', ...args] = small
    const child = spawn(program, [...args, folder, process.execPath, command, '1000000'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })

    const { code, stderr } = await ended(child)

    expect(stderr).toContain('no space was left')
    expect(stderr).not.toContain('confirmed')
    expect(code).toBe(1)
  })

  test.each([10, 300_000])('since its reader went away ends the command quietly, unconfirmed (%i)', async (bytes) => {
    const child = spawn(process.execPath, [command, String(bytes), '--after-input'], { stdio: 'pipe' })
    const end = ended(child)
    child.stdout.destroy()
    await once(child.stdout, 'close')
    child.stdin.end()

    expect(await end).toEqual({ code: 141, stderr: '' })
  })

  test('of help is told alike', async () => {
    const { code, stderr } = await redirected('/dev/full', [main, '--help'])

    expect(stderr).toMatch(/^nfltr: Standard output could not be written/)
    expect(code).toBe(1)
  })

  test('of a refusal leaves the refusal its exit code', async () => {
    const { code, stderr } = await redirected('/dev/full', [main, 'bogus', '--json'])

    expect(stderr).toContain("nfltr: Unknown command 'bogus'")
    expect(code).toBe(2)
  })

  test('of remarks, where nobody reads them, is let be', async () => {
    const child = spawn('sh', ['-c', 'exec "$@" 2> /dev/full', 'sh', process.execPath, main, 'bogus'], {
      stdio: 'ignore',
    })

    expect((await ended(child)).code).toBe(2)
  })
})
