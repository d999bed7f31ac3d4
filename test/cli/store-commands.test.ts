import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addresses } from '../../src/cli/compose/mesh-process.ts'
import { compose } from '../../src/cli/compose.ts'
import type { CliIo } from '../../src/cli/io.ts'
import { buildProgram } from '../../src/cli/program.ts'
import { checkBackup, writeBackup } from '../../src/store/backup.ts'
import { openHome } from '../../src/store/home/home.ts'
import { openLevelStore } from '../../src/store/level-store.ts'
import { put } from '../contracts/test-keyspace.ts'

let root: string
let dir: string
let nodeDir: string

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'nfltr-store-commands-'))
  const { paths } = openHome({ home: root, env: {} })
  dir = paths.hub('hub-1')
  nodeDir = paths.node
  for (const folder of [dir, nodeDir]) await fill(folder)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

async function fill(folder: string): Promise<void> {
  const store = await openLevelStore(folder)
  await store.commit([put('hub/brief/tsk_1', 'one'), put('hub/brief/tsk_2', 'two')])
  await store.close()
}

/** Runs a command, and gives back what it answers with --json and to people. */
async function run(...args: string[]): Promise<{ readonly document: object; readonly text: string }> {
  let answered: { document: object; text: string } | undefined
  const io: CliIo = {
    isJson: true,
    isInteractive: false,
    answer: (document, text) => {
      answered = { document, text }
    },
    event: () => undefined,
    note: () => undefined,
    warn: () => undefined,
    fail: () => undefined,
    ask: () => Promise.reject(new Error('nobody is there')),
    readInput: () => Promise.reject(new Error('nothing is there')),
    flushed: () => Promise.resolve(),
  }
  await buildProgram(compose({ io, env: {} })).parseAsync(['--home', root, ...args], { from: 'user' })
  if (answered === undefined) throw new Error('the command did not answer')
  return answered
}

function damageLog(folder: string, at: number): void {
  const log = readdirSync(join(folder, 'db')).find(
    (name) => name.endsWith('.log') && statSync(join(folder, 'db', name)).size > 0,
  )
  const path = join(folder, 'db', log ?? '')
  const bytes = readFileSync(path)
  bytes[at] = (bytes[at] ?? 0) ^ 16
  writeFileSync(path, bytes)
}

describe('nfltr hub repair', () => {
  test('says that a sound store is sound', async () => {
    const { document, text } = await run('hub', 'repair', '--hub-id', 'hub-1')

    expect(document).toMatchObject({ hub_id: 'hub-1', outcome: 'sound', records: 2, records_expected: 2, lost: [] })
    expect(text).toContain('Nothing was changed')
  })

  test('puts a flipped bit right, which the store was refused for with this very command', async () => {
    damageLog(dir, 40)
    await expect(run('hub', 'backup', '--hub-id', 'hub-1', join(root, 'b'))).rejects.toMatchObject({
      code: 'store_damaged',
      hint: expect.stringContaining('nfltr hub repair --hub-id hub-1'),
    })

    const { document, text } = await run('hub', 'repair', '--hub-id', 'hub-1')

    expect(document).toMatchObject({
      outcome: 'whole',
      records: 2,
      corrections: [{ found: expect.any(String) }],
      lost: [],
    })
    expect(text).toContain('put right: ')
    expect(await run('hub', 'repair', '--hub-id', 'hub-1')).toMatchObject({ document: { outcome: 'sound' } })
  })

  test('forgets that its process died on the store that it was', async () => {
    writeFileSync(join(dir, 'starts.json'), '{"deaths":[]}')
    damageLog(dir, 40)

    await run('hub', 'repair', '--hub-id', 'hub-1')

    expect(readdirSync(dir)).not.toContain('starts.json')
  })

  test('of a hub that never was is told', async () => {
    await expect(run('hub', 'repair', '--hub-id', 'hub-2')).rejects.toMatchObject({ code: 'not_found' })
  })
})

test('nfltr node repair names what was lost in words', async () => {
  const log = readdirSync(join(nodeDir, 'db')).filter((name) => name.endsWith('.log'))
  for (const name of log) rmSync(join(nodeDir, 'db', name))

  const { document, text } = await run('node', 'repair')

  expect(document).toMatchObject({ outcome: 'lossy', incarnation: 2, lost: [{ kind: 'file' }, {}, {}] })
  expect(document).not.toHaveProperty('hub_id')
  expect(text).toContain('lost: ')
  expect(text).toContain('comes again')
})

test('nfltr hub backup and restore put a hub back to what it was', async () => {
  const file = join(root, 'backup')
  const made = await run('hub', 'backup', '--hub-id', 'hub-1', file)
  const store = await openLevelStore(dir)
  await store.commit([put('hub/brief/tsk_3', 'three')])
  await store.close()

  const { document, text } = await run('hub', 'restore', '--hub-id', 'hub-1', file)

  expect(made.document).toMatchObject({ hub_id: 'hub-1', file, records: 2, incarnation: 1 })
  expect(document).toMatchObject({ hub_id: 'hub-1', records: 2, incarnation: 2, kept_as: expect.any(String) })
  expect(text).toContain('maybe_seen: true')
  const back = await openLevelStore(dir)
  expect(await back.get('hub/brief/tsk_3')).toBeUndefined()
  expect(await back.get('hub/brief/tsk_2')).toBeDefined()
  await back.close()
  await expect(run('hub', 'backup', '--hub-id', 'hub-3', file)).rejects.toMatchObject({ code: 'not_found' })
})

describe('nfltr hub backup', () => {
  const backup = (file: string) => run('hub', 'backup', '--hub-id', 'hub-1', file)

  test('never writes over what stands under the name, and leaves nothing beside it', async () => {
    const file = join(root, 'taken')
    writeFileSync(file, 'the only good one')
    const before = readdirSync(root)

    await expect(backup(file)).rejects.toMatchObject({ code: 'already_exists', hint: expect.any(String) })

    expect(readFileSync(file, 'utf8')).toBe('the only good one')
    expect(readdirSync(root)).toEqual(before)
  })

  test('of two at once to one name makes one', async () => {
    const file = join(root, 'contended')
    const store = await openLevelStore(dir)
    const of = { hubId: 'hub-1', version: '0' }

    const ends = await Promise.allSettled([writeBackup(store, file, of), writeBackup(store, file, of)])
    await store.close()

    expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(ends.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'already_exists' } })
    await expect(checkBackup(file)).resolves.toMatchObject({ hub_id: 'hub-1' })
    expect(readdirSync(root).filter((name) => name.startsWith('contended'))).toEqual(['contended'])
  })

  test('into a folder that is not there names it', async () => {
    const file = join(root, 'none', 'backup')
    await expect(backup(file)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(file),
    })
  })
})

test('nfltr hub restore of a folder names it', async () => {
  await expect(run('hub', 'restore', '--hub-id', 'hub-1', root)).rejects.toMatchObject({
    code: 'invalid_argument',
    message: expect.stringContaining(root),
  })
})

test('settings are refused by name where their file is a folder', async () => {
  const { paths } = openHome({ home: root, env: {} })
  mkdirSync(paths.configFile, { recursive: true, mode: 0o700 })

  for (const command of [['set', 'lan', 'false'], ['list']]) {
    await expect(run('config', ...command)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(paths.configFile),
    })
  }
})

describe('nfltr audit', () => {
  test('of a hub that never was is told, with its name', async () => {
    await expect(run('audit', '--hub-id', 'hub-2')).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining('hub-2'),
      hint: expect.stringContaining('--hub-id'),
    })
  })

  test('of a hub that has done nothing is clean', async () => {
    expect(await run('audit', '--hub-id', 'hub-1')).toMatchObject({ document: { ok: true, violations: [] } })
  })

  test('of a damaged store names what repairs it', async () => {
    damageLog(dir, 40)

    await expect(run('audit', '--hub-id', 'hub-1')).rejects.toMatchObject({
      code: 'store_damaged',
      hint: expect.stringContaining('nfltr hub repair --hub-id hub-1'),
    })
  })
})

describe('a setting that is set', () => {
  test.each([
    ['node.max_agents', '4', 4],
    ['lan', 'false', false],
    ['peers', '/ip4/192.0.2.7/tcp/1', ['/ip4/192.0.2.7/tcp/1']],
  ])('is answered as it is kept, of its own type: %s', async (key, value, kept) => {
    expect(await run('config', 'set', key, value)).toMatchObject({ document: { key, value: kept } })
  })
})

describe('addresses among the settings', () => {
  test.each([
    ['listen', '/ip4/999.1.1.1/tcp/1'],
    ['listen', '/dns4/host/tcp/1'],
    ['peers', '/ip4/192.0.2.7/udp/1'],
  ])('are read before they are kept: %s %s', async (key, value) => {
    await expect(run('config', 'set', key, value)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(`${key} of the command line`),
    })

    expect(await run('config', 'list')).toMatchObject({ document: { settings: [] } })
  })

  test('are named as settings where a process comes upon a wrong one', async () => {
    const home = openHome({ home: root, env: {} })
    await run('config', 'set', 'lan', 'false')
    writeFileSync(home.paths.configFile, '{"listen":["/ip4/999.1.1.1/tcp/1"]}')
    const context = { env: {}, version: '0', io: {} as CliIo }

    await expect(addresses(context, { home })).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('listen of config.json'),
    })
    await expect(addresses(context, { home, listen: ['/ip4/0.0.0.0/tcp/0'] })).resolves.toBeDefined()
    writeFileSync(home.paths.configFile, '{}')
    await expect(addresses({ ...context, env: { NFLTR_PEERS: '/ip4/1.2.3.4' } }, { home })).rejects.toThrow(
      'peers of NFLTR_PEERS',
    )
  })
})
