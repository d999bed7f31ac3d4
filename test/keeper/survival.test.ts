import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import process from 'node:process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { encodeFrame, frameReader, tokenProof } from '../../src/keeper/frames.ts'
import { bootId, isAlive, processesWithMark } from '../../src/platform/process-table.ts'
import { a1, codeOf, hear, isLine, type KeeperHome, keeperHome, keepersAt, lines, shell, text, the } from './support.ts'

let home: KeeperHome
beforeEach(async () => {
  home = await keeperHome()
})
afterEach(() => home[Symbol.asyncDispose]())

const journal = (attemptId = a1): string => join(home.attemptsDir, attemptId, 'journal')

/** A connection that was cut off may say so by an error first. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once('close', () => resolve())
  })
}

/** Tells the keeper's own death by the end of its records, which is the event there is. */
async function killKeeper(attemptId = a1): Promise<Awaited<ReturnType<typeof hear>>> {
  await using keeper = await home.keepers.adopt(attemptId)
  const { keeperPid } = the(await hear(keeper, { until: (record) => record.type === 'launched' }), 'header')
  process.kill(keeperPid, 'SIGKILL')
  return await hear(keeper)
}

describe('a keeper killed with -9', () => {
  test('is told after all it wrote down, and a sweep ends the tree it left', async () => {
    await using keeper = await home.keepers.launch(shell('echo up; (setsid sleep 1000 &); sleep 1000'))
    await hear(keeper, { until: isLine('up') })

    const heard = await killKeeper()
    const found = await home.keepers.find()
    const proof = await home.keepers.sweep(a1)

    expect(heard.error?.code).toBe('keeper_gone')
    expect(lines(heard)).toEqual(['up'])
    expect(found).toEqual([{ attemptId: a1, state: 'gone' }])
    expect(['cgroup_empty', 'scan_clean']).toContain(proof)
    expect(processesWithMark(a1)).toEqual([])
    const { pid, start } = the(heard, 'launched')
    expect(isAlive({ pid, start, bootId: bootId() })).toBe(false)
    expect(await stat(the(heard, 'header').socketPath).catch((error: NodeJS.ErrnoException) => error.code)).toBe(
      'ENOENT',
    )
    expect(await codeOf(keeper.write({ messageId: 'm', bytes: text('x') }))).toBe('keeper_gone')
  })

  test('before it launched anything is never_launched, and stays so', async () => {
    await using keeper = await home.keepers.launch(shell('read x'))
    const heard = await hear(keeper, { until: (record) => record.type === 'header' })
    await killKeeper()
    await home.keepers.sweep(a1)
    await truncate(journal(), the(heard, 'header').nextOffset)

    expect(await home.keepers.find()).toEqual([{ attemptId: a1, state: 'never_launched' }])
  })

  test('that left a damaged journal is found with the offset up to which it is sound', async () => {
    await using keeper = await home.keepers.launch(shell('echo one; echo two; read x'))
    const heard = await hear(keeper, { until: isLine('two') })
    await killKeeper()
    await home.keepers.sweep(a1)
    const launched = the(heard, 'launched')
    const bytes = await readFile(journal())
    bytes[launched.nextOffset - 3] = (bytes[launched.nextOffset - 3] ?? 0) ^ 1
    await writeFile(journal(), bytes)

    const damagedAtOffset = the(heard, 'launching').nextOffset
    expect(await home.keepers.find()).toEqual([{ attemptId: a1, state: 'gone', damagedAtOffset }])
    // Whoever has its end on disk does not have it read again, damaged or not.
    expect(await home.keepers.find({ ended: new Set([a1]) })).toEqual([{ attemptId: a1, state: 'ended' }])
    await using adopted = await home.keepers.adopt(a1)
    const read = await hear(adopted)
    expect(read.error?.code).toBe('journal_damaged')
    expect(read.error?.details['offset']).toBe(damagedAtOffset)
    expect(read.records.map((record) => record.type)).toEqual(['header', 'launching'])
  })
})

describe('a node killed with -9', () => {
  test('costs nothing: another process takes the keeper over and reads the whole', async () => {
    const launch = shell('echo before; read x; echo "after $x"; read y; echo "end $y"')
    const starter = spawn(
      process.execPath,
      [join(import.meta.dirname, 'starter.ts'), home.path, JSON.stringify(launch)],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    const [said] = await once(starter.stdout, 'data')
    expect(String(said)).toContain(`started ${a1}`)
    starter.kill('SIGKILL')
    await once(starter, 'exit')

    expect(await home.keepers.find()).toEqual([{ attemptId: a1, state: 'live' }])
    await using keeper = await home.keepers.adopt(a1)
    await keeper.write({ messageId: 'm1', bytes: text('one\n') })
    const first = await hear(keeper, { until: isLine('after one') })
    await using again = await keepersAt(home.path).adopt(a1)
    await again.write({ messageId: 'm1', bytes: text('one\n') })
    await again.write({ messageId: 'm2', bytes: text('two\n') })
    const rest = await hear(again, { fromOffset: first.records.at(-1)?.nextOffset ?? 0 })

    expect(lines(first)).toEqual(['before', 'after one'])
    expect(lines(rest)).toEqual(['end two'])
    expect(the(rest, 'exit').code).toBe(0)
  })

  test('between the claim and the keeper leaves an attempt that nothing can launch any more', async () => {
    await mkdir(join(home.attemptsDir, a1), { recursive: true, mode: 0o700 })

    expect(await home.keepers.find()).toEqual([{ attemptId: a1, state: 'never_launched' }])
    expect(await codeOf(home.keepers.launch(shell('echo ran')))).toBe('already_exists')
    await using keeper = await home.keepers.adopt(a1)
    expect((await hear(keeper)).error?.code).toBe('keeper_gone')
    expect(await readFile(journal(), 'utf8')).toBe('void\n')
  })
})

describe('the socket of a keeper', () => {
  test('refuses whoever does not know the token, and works on', async () => {
    await using keeper = await home.keepers.launch(shell('read x; echo "got $x"'))
    const header = the(await hear(keeper, { until: (record) => record.type === 'header' }), 'header')
    const stranger = connect(header.socketPath)
    const reader = frameReader(1000)
    const frames: Readonly<Record<string, unknown>>[] = []
    stranger.on('data', (chunk) => {
      for (const frame of reader.push(Buffer.from(chunk))) {
        frames.push(frame)
        const proof = tokenProof('f'.repeat(32), 'node', { node: 'n', keeper: String(frame['nonce']) })
        stranger.write(encodeFrame({ type: 'proof', nonce: 'n', proof }))
        stranger.write(
          encodeFrame({ id: 1, type: 'write', messageId: 'evil', bytes: Buffer.from('evil\n').toString('base64') }),
        )
      }
    })
    stranger.on('error', () => undefined)
    await closed(stranger)

    await keeper.write({ messageId: 'm', bytes: text('good\n') })

    expect(frames.map((frame) => frame['type'])).toEqual(['challenge'])
    expect(lines(await hear(keeper))).toEqual(['got good'])
  })

  test('cuts off whoever sends a frame over the bound before any proof', async () => {
    await using keeper = await home.keepers.launch(shell('read x; echo "got $x"'))
    const header = the(await hear(keeper, { until: (record) => record.type === 'header' }), 'header')
    const stranger = connect(header.socketPath)
    stranger.on('error', () => undefined)
    stranger.resume()
    stranger.write(Buffer.from([0, 0x10, 0, 0]))
    await closed(stranger)

    await keeper.write({ messageId: 'm', bytes: text('on\n') })
    expect(lines(await hear(keeper))).toEqual(['got on'])
  })

  test('comes back when it was cleaned away', async () => {
    await using keeper = await home.keepers.launch(shell('read x; echo "got $x"'))
    const header = the(await hear(keeper, { until: (record) => record.type === 'header' }), 'header')
    await rm(header.socketPath)

    await using adopted = await home.keepers.adopt(a1)
    await adopted.write({ messageId: 'm', bytes: text('in\n') })

    expect(lines(await hear(adopted))).toEqual(['got in'])
  })

  test('is not used in a folder that others can write', async () => {
    await using keeper = await home.keepers.launch(shell('read x'))
    await import('node:fs/promises').then((fs) => fs.chmod(join(home.path, 'run'), 0o777))

    await using adopted = await home.keepers.adopt(a1)
    const code = await codeOf(adopted.write({ messageId: 'm', bytes: text('x\n') }))
    await import('node:fs/promises').then((fs) => fs.chmod(join(home.path, 'run'), 0o700))

    expect(code).toBe('insecure_permissions')
    await keeper.stop({ graceMs: 0 })
  })
})

describe('the end of a command', () => {
  test('takes with it what it left in sessions of their own', async () => {
    const script = 'setsid sh -c "echo child; exec sleep 1000" & env -i setsid /bin/sleep 1000 & read x; exit 0'
    await using keeper = await home.keepers.launch(shell(script))
    await hear(keeper, { until: isLine('child') })
    const left = processesWithMark(a1).length

    await keeper.write({ messageId: 'm', bytes: text('go\n') })
    const exit = the(await hear(keeper), 'exit')

    expect(left).toBeGreaterThanOrEqual(2)
    expect(exit.code).toBe(0)
    expect(processesWithMark(a1)).toEqual([])
  })

  test('a stop and a sweep of a living keeper give the proof of its own record', async () => {
    await using keeper = await home.keepers.launch(shell('echo up; sleep 1000'))
    await hear(keeper, { until: isLine('up') })

    const proof = await home.keepers.sweep(a1)

    expect(the(await hear(keeper), 'exit').proof).toBe(proof)
  })

  test('lets the attempt be removed, and a running one not', async () => {
    await using keeper = await home.keepers.launch(shell('read x'))
    expect(await codeOf(home.keepers.remove(a1))).toBe('stopping')
    await keeper.closeInput()
    await hear(keeper)

    await home.keepers.remove(a1)

    expect(await home.keepers.find()).toEqual([])
    expect(await codeOf(home.keepers.adopt(a1))).toBe('not_found')
  })
})
