import { execFileSync } from 'node:child_process'
import { access, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { codeOf, hear, keeperHome, keepersAt, lines, shell, the } from './support.ts'

/** A disk small enough to fill: only root may mount one. */
let disk: string | undefined
beforeAll(async () => {
  const point = await mkdtemp(join(tmpdir(), 'nfltr-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,mode=0700', 'tmpfs', point], { stdio: 'pipe' })
    disk = point
  } catch (error) {
    await rm(point, { recursive: true })
    process.stderr.write(`full disk: skipped, no small disk could be mounted (${String(error).split('\n')[0]})\n`)
  }
})
afterAll(async () => {
  if (disk === undefined) return
  execFileSync('umount', [disk])
  await rm(disk, { recursive: true })
})

/** Fills what is left, to the last byte. */
async function fill(path: string): Promise<void> {
  const error = await writeFile(path, Buffer.alloc(2 * 1024 * 1024)).catch((failure: NodeJS.ErrnoException) => failure)
  expect(error?.code).toBe('ENOSPC')
}

describe('a full disk', () => {
  test('holds the command back and loses no line when there is room again', async (context) => {
    if (disk === undefined) return context.skip()
    const program =
      'i=0; while [ $i -lt 3000 ]; do echo "line $i 0123456789012345678901234567890123456789"; i=$((i+1)); done'
    await using home = await keeperHome({ under: disk })
    await using keeper = await home.keepers.launch(shell(`read go; ${program}`))
    await hear(keeper, { until: (record) => record.type === 'launched' })
    const ballast = join(disk, 'ballast')
    // The message is let in first: an intent that cannot be written down is not written into the command either.
    await keeper.write({ messageId: 'go', bytes: Buffer.from('go\n') })
    await fill(ballast)

    const firstHalf = hear(keeper)
    await rm(ballast)
    const heard = await firstHalf

    expect(lines(heard)).toHaveLength(3000)
    expect(lines(heard)[2999]).toContain('line 2999 ')
    expect(the(heard, 'exit').code).toBe(0)
  })

  test('does not keep a deadline from ending the tree', async (context) => {
    if (disk === undefined) return context.skip()
    await using home = await keeperHome({ under: disk })
    await using keeper = await home.keepers.launch(
      shell('read x; while :; do echo "0123456789"; done', { deadlineMs: 600 }),
    )
    const { pid } = the(await hear(keeper, { until: (record) => record.type === 'launched' }), 'launched')
    const ballast = join(disk, 'ballast')
    await fill(ballast)

    await gone(pid)
    await rm(ballast)
    const heard = await hear(keeper)

    expect(the(heard, 'stopping').by).toBe('deadline')
    expect(heard.records.at(-1)?.type).toBe('exit')
  })

  // One more file fits with every step: the folder, its log, the socket, the journal.
  test.each([4, 5, 6, 7, 8])('of %i files is named when an attempt cannot begin on it', async (filesMax) => {
    if (disk === undefined) return
    const point = await mkdtemp(join(tmpdir(), 'nfltr-disk-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=1m,mode=0700,nr_inodes=${filesMax}`, 'tmpfs', point])
    const marker = join(disk, 'ran')
    try {
      const code = await codeOf(keepersAt(join(point, 'home')).launch(shell(`echo ran > ${marker}`)))

      expect(code).toBe('disk_full')
      await expect(access(marker)).rejects.toThrow()
    } finally {
      execFileSync('umount', ['-l', point])
      await rm(point, { recursive: true })
    }
  })
})

/** The process is not ours to wait for: look until it has gone. The test's own time-out bounds it. */
async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0)
    } catch {
      return
    }
    await new Promise(setImmediate)
  }
}
