import { mkdir, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { bootId, isAlive } from '../../src/platform/process-table.ts'
import { a1, codeOf, hear, isLine, type KeeperHome, keeperHome, lines, only, shell, text, the } from './support.ts'

let home: KeeperHome
beforeEach(async () => {
  home = await keeperHome()
})
afterEach(() => home[Symbol.asyncDispose]())

describe('keeper', () => {
  test('writes down a command from its launch to the proof of its end', async () => {
    await using keeper = await home.keepers.launch(shell('echo out; echo err >&2; exit 3'))

    const heard = await hear(keeper)

    expect(heard.error).toBeUndefined()
    expect(heard.records.slice(0, 3).map((record) => record.type)).toEqual(['header', 'launching', 'launched'])
    expect(lines(heard)).toEqual(['out'])
    expect(only(heard, 'stderr').map((record) => Buffer.from(record.chunk).toString())).toEqual(['err\n'])
    expect(heard.records.at(-1)).toMatchObject({ type: 'exit', code: 3 })
    expect(await home.keepers.find()).toEqual([{ attemptId: a1, state: 'ended' }])
  })

  test('gives the command its environment, its mark and the mask of the user, and nothing else', async () => {
    const launch = shell('umask; env', { env: { PATH: '/usr/bin:/bin', A: '1' }, secretEnv: { SECRET: 's3cret' } })
    await using keeper = await home.keepers.launch(launch)

    const heard = await hear(keeper)

    const [mask, ...variables] = lines(heard)
    expect(mask).toBe(process.umask().toString(8).padStart(4, '0'))
    expect(variables.filter((line) => !/^(PWD|_|SHLVL|OLDPWD)=/.test(line)).sort()).toEqual(
      ['A=1', `NFLTR_ATTEMPT=${a1}`, 'PATH=/usr/bin:/bin', 'SECRET=s3cret'].sort(),
    )
    expect(the(heard, 'header').envNames).toEqual(['A', 'PATH', 'SECRET'])
  })

  test('keeps a secret out of every file and command line of its own', async () => {
    await using keeper = await home.keepers.launch(shell('read x', { secretEnv: { KEY: 'sk-not-to-be-found' } }))
    const heard = await hear(keeper, { until: (record) => record.type === 'launched' })
    const keeperPid = the(heard, 'header').keeperPid

    const files = await Promise.all(
      ['journal', 'keeper.log'].map((name) => readFile(join(home.attemptsDir, a1, name), 'latin1')),
    )
    const own = await Promise.all(
      ['cmdline', 'environ'].map((name) => readFile(`/proc/${keeperPid}/${name}`, 'latin1')),
    )

    for (const found of [...files, ...own]) expect(found).not.toContain('sk-not-to-be-found')
    expect((await stat(join(home.attemptsDir, a1, 'journal'))).mode & 0o777).toBe(0o600)
    expect((await stat(join(home.attemptsDir, a1))).mode & 0o777).toBe(0o700)
  })

  test('writes a message once, whatever is repeated, and notes it before the command has it', async () => {
    await using keeper = await home.keepers.launch(shell('while read x; do echo "got $x"; done'))
    const message = { messageId: 'm1', bytes: text('one\n') }

    await Promise.all([keeper.write(message), keeper.write(message)])
    await keeper.write(message)
    await keeper.write({ messageId: 'm2', bytes: text('two\n') })
    await keeper.closeInput()
    const heard = await hear(keeper)

    expect(lines(heard)).toEqual(['got one', 'got two'])
    expect(only(heard, 'stdin_intent').map((record) => record.messageId)).toEqual(['m1', 'm2'])
    const order = heard.records.map((record) => record.type)
    expect(order.indexOf('stdin_intent')).toBeLessThan(order.indexOf('stdout'))
    expect(order.filter((type) => type === 'input_closed')).toHaveLength(1)
  })

  test('refuses a message when the input is closed', async () => {
    await using keeper = await home.keepers.launch(shell('cat; exec sleep 1000'))
    await keeper.closeInput()

    const code = await codeOf(keeper.write({ messageId: 'late', bytes: text('x\n') }))

    expect(code).toBe('keeper_gone')
    await keeper.stop({ graceMs: 0 })
    expect(only(await hear(keeper), 'stdin_intent')).toEqual([])
  })

  test('gives 10,000 lines in order', async () => {
    await using keeper = await home.keepers.launch(
      shell('i=0; while [ $i -lt 10000 ]; do echo "line $i"; i=$((i+1)); done'),
    )

    const heard = await hear(keeper)

    expect(lines(heard)).toEqual(Array.from({ length: 10_000 }, (_, index) => `line ${index}`))
  })

  test('gives a line of 5 MiB whole', async () => {
    const script = `process.stdout.write('x'.repeat(5 * 1024 * 1024) + '\\nend\\n')`
    await using keeper = await home.keepers.launch({ ...shell(''), program: process.execPath, args: ['-e', script] })

    const heard = await hear(keeper)

    expect(lines(heard).map((line) => line.length)).toEqual([5 * 1024 * 1024, 3])
    expect(lines(heard)[0]).toBe('x'.repeat(5 * 1024 * 1024))
  })

  test('works below folders with spaces and letters of all kinds', async () => {
    const cwd = join(home.path, 'ein Ördner ✓')
    await mkdir(cwd)
    await using odd = await keeperHome({ name: 'hömé with space' })
    await using keeper = await odd.keepers.launch(
      shell('pwd; echo "$1"', { cwd, args: ['-c', 'pwd; echo "$1"', 'sh', 'ünï "x" $y'] }),
    )

    const heard = await hear(keeper)

    expect(lines(heard)).toEqual([cwd, 'ünï "x" $y'])
  })

  test('works where the path of the home is far too long for a socket', async () => {
    await using deep = await keeperHome({ name: join('d'.repeat(120), 'e'.repeat(120)) })
    await using keeper = await deep.keepers.launch(shell('read x; echo "got $x"'))

    await keeper.write({ messageId: 'm', bytes: text('it\n') })
    const heard = await hear(keeper)

    expect(lines(heard)).toEqual(['got it'])
    expect(Buffer.byteLength(the(heard, 'header').socketPath)).toBeLessThanOrEqual(100)
    const run: unknown = JSON.parse(await readFile(join(deep.path, 'run', 'run.json'), 'utf8'))
    expect(the(heard, 'header').socketPath.startsWith((run as { sockets_dir: string }).sockets_dir)).toBe(true)
    await rm((run as { sockets_dir: string }).sockets_dir, { recursive: true })
  })

  test('of two launches of one attempt exactly one runs', async () => {
    const marker = await mkdtemp(join(tmpdir(), 'nfltr-marker-'))
    const launch = shell(`echo x >> ${marker}/runs`)

    const both = await Promise.allSettled([home.keepers.launch(launch), home.keepers.launch(launch)])
    const third = await codeOf(home.keepers.launch(launch))

    const won = both.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    expect(won).toHaveLength(1)
    expect(both.filter((each) => each.status === 'rejected').map((each) => each.reason.code)).toEqual([
      'already_exists',
    ])
    expect(third).toBe('already_exists')
    for (const keeper of won) {
      await hear(keeper)
      await keeper[Symbol.asyncDispose]()
    }
    expect(await readFile(join(marker, 'runs'), 'utf8')).toBe('x\n')
    await rm(marker, { recursive: true })
  })

  test('a program that is not there ends the attempt with the reason', async () => {
    await using keeper = await home.keepers.launch({ ...shell(''), program: '/no/such/program' })

    const heard = await hear(keeper)

    expect(the(heard, 'launch_failed').message).toContain('ENOENT')
    expect(heard.records.at(-1)?.type).toBe('exit')
    expect(only(heard, 'launched')).toEqual([])
    expect(await codeOf(keeper.write({ messageId: 'm', bytes: text('x') }))).toBe('keeper_gone')
  })

  test('ends the command at its deadline, and says that it was the deadline', async () => {
    await using keeper = await home.keepers.launch(shell('echo up; exec sleep 1000', { deadlineMs: 150 }))

    const heard = await hear(keeper)

    expect(the(heard, 'stopping').by).toBe('deadline')
    expect(the(heard, 'exit').signal).toBe('SIGTERM')
    expect(the(heard, 'stopping').atMs - the(heard, 'launched').atMs).toBeGreaterThanOrEqual(149)
  })

  test('stops a command that heeds no SIGTERM with SIGKILL after the grace', async () => {
    await using keeper = await home.keepers.launch(shell(`trap '' TERM; echo deaf; exec sleep 1000`))
    await hear(keeper, { until: isLine('deaf') })

    await keeper.stop({ graceMs: 50 })
    const heard = await hear(keeper)

    expect(the(heard, 'stopping').by).toBe('node')
    expect(the(heard, 'exit').signal).toBe('SIGKILL')
  })

  test('a SIGTERM, SIGINT or SIGHUP to the keeper costs nothing', async () => {
    await using keeper = await home.keepers.launch(shell('echo up; read x; echo "got $x"'))
    const { keeperPid } = the(await hear(keeper, { until: isLine('up') }), 'header')

    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(keeperPid, signal)
    await keeper.write({ messageId: 'm', bytes: text('on\n') })
    const heard = await hear(keeper)

    expect(lines(heard)).toEqual(['up', 'got on'])
    expect(the(heard, 'exit').code).toBe(0)
  })

  test('leaves no process, no socket and no control group behind', async () => {
    await using keeper = await home.keepers.launch(shell('echo done'))

    const heard = await hear(keeper)

    const { socketPath } = the(heard, 'header')
    expect(await stat(socketPath).catch((error: NodeJS.ErrnoException) => error.code)).toBe('ENOENT')
    const { cgroup } = the(heard, 'launching')
    if (cgroup !== undefined)
      expect(await stat(cgroup).catch((error: NodeJS.ErrnoException) => error.code)).toBe('ENOENT')
    await home.keepers.sweep(a1)
    expect(isAlive({ pid: the(heard, 'launched').pid, start: the(heard, 'launched').start, bootId: bootId() })).toBe(
      false,
    )
  })
})
