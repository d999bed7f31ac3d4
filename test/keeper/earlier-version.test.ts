import { spawn } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { a1, hear, isLine, type KeeperHome, keeperHome, lines, only, shell, text, the } from './support.ts'

let home: KeeperHome
beforeEach(async () => {
  home = await keeperHome()
})
afterEach(() => home[Symbol.asyncDispose]())

const frozenKeeper = fileURLToPath(new URL('../fixtures/keeper-1/recordings/keeper.js', import.meta.url))

/** Starts the first version's keeper as the first version's node did. */
async function startFrozenKeeper(script: string): Promise<void> {
  const folder = join(home.attemptsDir, a1)
  const runDir = join(home.path, 'run')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await mkdir(runDir, { recursive: true, mode: 0o700 })
  const keeper = spawn(process.execPath, [frozenKeeper], {
    cwd: '/',
    env: {},
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit', 'pipe'],
  })
  const [, , , ready] = keeper.stdio
  if (keeper.stdin === null || ready === null || ready === undefined || !('read' in ready)) throw new Error('no pipes')
  keeper.stdin.end(JSON.stringify({ ...shell(script), folder, socketPath: join(runDir, 'k-0123456789ab.sock') }))
  let answer = ''
  for await (const chunk of ready) answer += String(chunk)
  expect(JSON.parse(answer)).toEqual({ ready: true })
  keeper.unref()
}

test('a keeper that the first version started is found, taken over, written to, and read to its end', async () => {
  await startFrozenKeeper('echo up; read word; echo "heard $word"; read never')

  expect(await home.keepers.find()).toEqual([{ attemptId: a1, state: 'live' }])
  {
    await using keeper = await home.keepers.adopt(a1)
    await hear(keeper, { until: isLine('up') })
    await keeper.write({ messageId: 'msg_1', bytes: text('mesh\n') })
    await hear(keeper, { until: isLine('heard mesh') })
  }
  // Another start of the node, which repeats what it may not have said and ends the turn.
  await using keeper = await home.keepers.adopt(a1)
  await keeper.write({ messageId: 'msg_1', bytes: text('mesh\n') })
  await keeper.stop({ graceMs: 1_000 })
  const heard = await hear(keeper)

  expect(heard.error).toBeUndefined()
  expect(lines(heard)).toEqual(['up', 'heard mesh'])
  expect(only(heard, 'stdin_intent')).toHaveLength(1)
  expect(['cgroup_empty', 'scan_clean']).toContain(the(heard, 'exit').proof)
  expect(await home.keepers.find()).toEqual([{ attemptId: a1, state: 'ended' }])
})
