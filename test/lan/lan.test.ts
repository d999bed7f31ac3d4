import { copyFileSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { removeFolder } from '../support/remove-folder.ts'
import { stepsOfGuide } from './guide.ts'
import { onASwitch, whyNoNamespaces } from './namespaces.ts'
import { Person } from './person.ts'

const answer = 'hello from the worker'
const joinAgain = 'nfltr node join --listen /ip4/0.0.0.0/tcp/0'
const whyNot = whyNoNamespaces()

describe.skipIf(whyNot !== undefined).each([
  { name: 'with a route for multicast', hasRoute: true, network: '10.201.7', lan: /multicast DNS on net0$/ },
  {
    name: 'without a route for multicast',
    hasRoute: false,
    network: '10.201.8',
    lan: /on net0 \(no route for multicast/,
  },
])(`docs/guides/lan.md, by the letter, $name${whyNot === undefined ? '' : ` (skipped: ${whyNot})`}`, (given) => {
  let world: World

  beforeAll(() => {
    world = newWorld(given)
  })
  afterAll(() => world?.remove())

  test('leads to a first result', async () => {
    let last = ''
    for (const { machines, commands, heading } of stepsOfGuide()) {
      for (const command of commands) {
        for (const machine of machines) last = await follow(world, { machine, command })
      }
      if (heading.startsWith('6.')) expect(last).toContain(answer)
    }
    const members = (await world.laptop.json('nfltr mesh members'))['members'] as readonly Record<string, unknown>[]
    expect(members.map(({ name, state }) => [name, state])).toEqual([
      ['laptop', 'online'],
      ['worker', 'online'],
    ])
  })

  test('doctor and node status say how members are found', async () => {
    // It looks at what agents would need here as well, which a laptop does not have.
    const doctor = JSON.parse(await world.laptop.run('nfltr doctor --json || true')) as Record<string, unknown>
    const checks = doctor['checks'] as readonly {
      readonly name: string
      readonly ok: boolean
      readonly message: string
    }[]
    const status = await world.worker.json('nfltr node status')

    expect(checks.find(({ name }) => name === 'lan')).toMatchObject({
      ok: true,
      message: expect.stringMatching(given.lan),
    })
    expect(status['lan']).toMatchObject({ state: 'on', interfaces: ['net0'] })
  })

  test('a hub and a node that both come back on other ports find each other', async () => {
    await world.laptop.run('nfltr hub stop')
    await world.worker.interrupt('nfltr node join --invite-file invite.txt')

    await world.worker.serve(joinAgain, /worker is ready/)
    await world.laptop.run('nfltr agent spawn --machine worker --brief-file brief.txt --timeout-ms 30000')

    expect(await world.laptop.run('nfltr agent wait --timeout 60s')).toContain(answer)
  })

  test.runIf(given.hasRoute)(
    'a node whose address changes while an agent runs comes back, and the result comes once',
    async () => {
      const gate = join(world.folder, 'gate')
      world.play({ hold: [{ say: 'started' }, { wait_for_file: gate }, { say: 'held and done' }] })
      writeFileSync(join(world.laptop.home, 'hold.txt'), 'hold')
      const { agent_id: id } = await world.laptop.json('nfltr agent spawn --machine worker --brief-file hold.txt')
      await expect.poll(async () => stateOf(world, String(id)), { timeout: 30_000, interval: 300 }).toBe('running')

      // What comes after this can come over a new connection alone: the old one's address is nobody's any more.
      world.moveWorker()
      writeFileSync(gate, '')

      const reply = await world.laptop.json('nfltr agent wait --timeout 60s')
      const results = reply['results'] as readonly Record<string, unknown>[]
      expect(results.map(({ agent_id, text, late }) => [agent_id, text, late])).toEqual([
        [id, 'held and done', undefined],
      ])
      // What a person would type after --peer now.
      const { listen } = await world.worker.json('nfltr mesh show')
      expect(listen).toEqual([expect.stringContaining(`/ip4/${given.network}.77/`)])
      const again = await world.laptop.json('nfltr agent wait --timeout 1s')
      expect([again['results'], again['unconfirmed']]).toEqual([[], []])
    },
  )
})

interface World {
  readonly folder: string
  readonly laptop: Person
  readonly worker: Person
  play(turns: Readonly<Record<string, readonly object[]>>): void
  /** Takes the worker's address away and gives it another one of the same network. */
  moveWorker(): void
  remove(): Promise<void>
}

function newWorld(given: { readonly hasRoute: boolean; readonly network: string }): World {
  // Sockets have short paths only.
  const folder = mkdtempSync('/tmp/nfltr-lan-')
  const { machines, remove } = onASwitch(given.network, ['laptop', 'worker'])
  const { laptop: one, worker: other } = machines
  if (given.hasRoute) for (const each of [one, other]) each.ip('route', 'add', '224.0.0.0/4', 'dev', each.device)
  const scenario = join(folder, 'scenario.json')
  const play: World['play'] = (turns) => writeFileSync(scenario, JSON.stringify({ turns, default: [{ say: answer }] }))
  play({})
  const laptop = new Person({ namespace: one, home: join(folder, 'laptop'), scenario })
  const worker = new Person({ namespace: other, home: join(folder, 'worker'), scenario })
  writeFileSync(join(worker.home, 'key.txt'), 'sk-ant-test-0000\n', { mode: 0o600 })
  return {
    folder,
    laptop,
    worker,
    play,
    moveWorker: () => {
      other.ip('addr', 'del', `${given.network}.2/24`, 'dev', other.device)
      other.ip('addr', 'add', `${given.network}.77/24`, 'dev', other.device)
      // The route went with the last address that it was on.
      if (given.hasRoute) other.ip('route', 'replace', '224.0.0.0/4', 'dev', other.device)
    },
    remove: async () => {
      await removeFolder(folder)
      remove()
    },
  }
}

/** Does what the guide says, and what a person does between its commands. */
async function follow(
  world: World,
  { machine, command }: { readonly machine: 'laptop' | 'worker'; readonly command: string },
): Promise<string> {
  const person = world[machine]
  const invite = join(world.laptop.home, 'invite.txt')
  if (command === './scripts/install.sh') {
    // What it installs is looked at by scripts/install-check; here the program is on the PATH already.
    expect(existsSync(join(import.meta.dirname, '../..', command))).toBe(true)
    return ''
  }
  if (command.startsWith('nfltr mesh invite')) {
    person.begin(command)
    await expect
      .poll(() => existsSync(invite) && readFileSync(invite, 'utf8'), { timeout: 30_000 })
      .toMatch(/^nfltr1\..*\n$/)
    copyFileSync(invite, join(world.worker.home, 'invite.txt'))
    return ''
  }
  if (command.startsWith('nfltr node join')) {
    await person.serve(command, /worker is ready/)
    return ''
  }
  // Where something is wrong with this machine for agents, which a laptop need not be fit for, doctor ends with 1.
  return await person.run(command === 'nfltr doctor' ? `${command} || true` : command)
}

async function stateOf(world: World, id: string): Promise<unknown> {
  return (await world.laptop.json(`nfltr agent show ${id}`))['state']
}
