import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import process from 'node:process'
import { afterEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/platform/clock.ts'
import {
  createControlGroup,
  launchInside,
  processesInside,
  removeControlGroup,
} from '../../src/platform/control-group.ts'
import { endTree, signalProcess } from '../../src/platform/end-tree.ts'
import { addKnown, membersOf, type ProcessTree, processTree } from '../../src/platform/exit-proof.ts'
import { bootId, nameOf } from '../../src/platform/process-table.ts'

const clock = systemClock()
const started: ChildProcess[] = []
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

function spawnScript(script: string, mark: string): ChildProcess {
  const env = { PATH: '/usr/bin:/bin', NFLTR_ATTEMPT: mark }
  const child = spawn('/bin/sh', ['-c', script], { env, stdio: ['pipe', 'pipe', 'inherit'], detached: true })
  started.push(child)
  return child
}

async function saidSomething(child: ChildProcess): Promise<void> {
  if (child.stdout === null) throw new Error('no output')
  await once(child.stdout, 'data')
}

function known(tree: ProcessTree, child: ChildProcess): ProcessTree {
  addKnown(tree, nameOf(child.pid ?? 0))
  return tree
}

describe('ending a tree', () => {
  test('lets it end by itself first, and takes sessions of its children along', async () => {
    const child = spawnScript(
      'setsid sleep 1000 & trap "echo bye; exit 5" TERM; echo up; sleep 1000 & wait',
      `tree-1-${process.pid}`,
    )
    await saidSomething(child)
    const ended = once(child, 'exit')

    const proof = await endTree(known(processTree(`tree-1-${process.pid}`, { trustsSessions: true }), child), {
      graceMs: 5_000,
      clock,
    })

    expect(proof).toBe('scan_clean')
    expect(await ended).toEqual([5, null])
    expect(membersOf(processTree(`tree-1-${process.pid}`, { trustsSessions: false }))).toEqual([])
  })

  test('kills what heeds no SIGTERM', async () => {
    const child = spawnScript('trap "" TERM; echo up; sleep 1000', `tree-2-${process.pid}`)
    await saidSomething(child)
    const ended = once(child, 'exit')

    await endTree(known(processTree(`tree-2-${process.pid}`, { trustsSessions: true }), child), { graceMs: 30, clock })

    expect(await ended).toEqual([null, 'SIGKILL'])
  })

  test('never signals a number that belongs to another process now', async () => {
    const child = spawnScript('echo up; read x; echo "still here"', `tree-3-${process.pid}`)
    await saidSomething(child)
    const name = nameOf(child.pid ?? 0)

    expect(signalProcess({ ...name, start: '1' }, 'SIGKILL')).toBe(false)
    expect(signalProcess({ ...name, bootId: 'other' }, 'SIGKILL')).toBe(false)
    expect(signalProcess({ pid: process.pid, start: nameOf(process.pid).start, bootId: bootId() }, 'SIGKILL')).toBe(
      false,
    )
    child.stdin?.write('\n')

    await saidSomething(child)
    await once(child, 'exit')
  })

  test('in a control group finds and ends what gave up mark, parent and session', async (context) => {
    const group = createControlGroup(`nfltr-test-${process.pid}`)
    if (group === undefined) {
      process.stderr.write('control groups: skipped, this user cannot make one here\n')
      return context.skip()
    }
    const { launched: child, isProof } = launchInside(group, () =>
      spawnScript(
        '(env -i setsid /bin/sh -c "env -i setsid /bin/sleep 1000 &" &) ; sleep 0; echo up; read x',
        `tree-4-${process.pid}`,
      ),
    )
    await saidSomething(child)
    // The orphan's parents are gone after this, and with them every other trace of it.
    await expect.poll(() => processesInside(group).length).toBe(2)

    const proof = await endTree(processTree(`tree-4-${process.pid}`, { group, trustsSessions: true }), {
      graceMs: 0,
      clock,
    })

    expect(isProof).toBe(true)
    expect(proof).toBe('cgroup_empty')
    expect(existsSync(group)).toBe(false)
    removeControlGroup(group)
  })
})
