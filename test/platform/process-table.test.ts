import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import process from 'node:process'
import { afterEach, describe, expect, test } from 'vitest'
import {
  bootId,
  hasMark,
  isAlive,
  nameOf,
  ownName,
  processesWithMark,
  readProcess,
} from '../../src/platform/process-table.ts'

const started: ChildProcess[] = []
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

/** Starts a shell script and waits for its first line, so that what it started is there. */
async function run(
  script: string,
  env: Record<string, string> = {},
): Promise<{ child: ChildProcess; pid: number; said: string }> {
  const child = spawn('/bin/sh', ['-c', script], {
    env: { PATH: '/usr/bin:/bin', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  started.push(child)
  const [said] = await once(child.stdout, 'data')
  if (child.pid === undefined) throw new Error('the script has no pid')
  return { child, pid: child.pid, said: String(said) }
}

describe('process table', () => {
  test('names a process by pid, start time and boot, and all three must match', () => {
    const own = ownName()

    expect(own.pid).toBe(process.pid)
    expect(isAlive(own)).toBe(true)
    expect(isAlive({ ...own, start: `${own.start}1` })).toBe(false)
    expect(isAlive({ ...own, bootId: 'of another boot' })).toBe(false)
    expect(isAlive({ ...own, pid: 2 ** 30 })).toBe(false)
  })

  test('does not take a process that ended for a living one', async () => {
    const { child, pid } = await run('echo up; read x')
    const name = nameOf(pid)
    child.kill('SIGKILL')
    await once(child, 'exit')

    expect(isAlive(name)).toBe(false)
    expect(readProcess(pid)?.start).not.toBe(name.start)
  })

  test('reads the name of a program with brackets and spaces past', async () => {
    const script = 'cp /bin/sleep "/tmp/x) (y $$" && "/tmp/x) (y $$" 1000 & echo $!; wait'
    const { said, pid } = await run(script)
    const child = Number(said)

    await expect.poll(() => readProcess(child)?.ppid).toBe(pid)
    process.kill(child, 'SIGKILL')
    await run(`rm -f "/tmp/x) (y ${pid}"; echo gone; read x`)
  })

  test('finds the whole mark only', async () => {
    const { pid } = await run('echo up; read x', { NFLTR_ATTEMPT: 't10', OTHER: 'NFLTR_ATTEMPT=t1' })

    expect(hasMark(pid, 't10')).toBe(true)
    expect(hasMark(pid, 't1')).toBe(false)
    expect(hasMark(process.pid, 't10')).toBe(false)
  })

  test('finds marked processes, and what has lost the mark below them or in a session they lead', async () => {
    const script = 'env -i /bin/sleep 1000 & env -i setsid /bin/sh -c "env -i /bin/sleep 1000 & echo up; wait" & wait'
    const { pid } = await run(script, { NFLTR_ATTEMPT: `find-me-${process.pid}` })

    const members = processesWithMark(`find-me-${process.pid}`)

    expect(members.map((entry) => entry.pid)).toContain(pid)
    expect(members.length).toBeGreaterThanOrEqual(4)
    expect(processesWithMark('find-nobody')).toEqual([])
    for (const entry of members) process.kill(entry.pid, 'SIGKILL')
  })

  test('gives one boot id for all of a boot', () => {
    expect(bootId()).toMatch(/^[0-9a-f-]{36}$/i)
    expect(bootId()).toBe(bootId())
  })
})
