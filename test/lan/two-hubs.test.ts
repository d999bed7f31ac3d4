import { randomUUID } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processesTouching } from '../../sim/soak/leftovers.ts'
import type { McpSession } from '../e2e/mcp-client.ts'
import { removeFolder } from '../support/remove-folder.ts'
import { onASwitch, whyNoNamespaces } from './namespaces.ts'
import { Person } from './person.ts'

type Fields = Readonly<Record<string, unknown>>

const whyNot = whyNoNamespaces()
const mine = { brief: 'work that the laptop alone knows of', text: 'what the laptop alone gets to read' }
const theirs = { brief: 'work that the desk alone knows of', text: 'what the desk alone gets to read' }

describe.skipIf(whyNot !== undefined)(
  `two hubs on two machines, with agents on a third${whyNot === undefined ? '' : ` (skipped: ${whyNot})`}`,
  () => {
    let world: World
    beforeAll(async () => {
      world = await newWorld()
    })
    afterAll(() => world?.remove())

    test('see nothing of each other but the slots that are taken', async () => {
      const { laptop, desk } = world
      // A new member hears of the others from the first one that it meets.
      for (const hub of [laptop, desk]) {
        await expect.poll(() => freeSlotsOf(hub), { timeout: 60_000, interval: 200 }).toBe(2)
      }
      const [laptops, desks] = [await spawn(laptop, mine.brief, 3), await spawn(desk, theirs.brief, 1)]
      const [first = '', second = '', third = ''] = laptops
      const [own = ''] = desks

      // One hub may have two of the three slots: the third spawn of the laptop waits, though one slot was free before the desk's.
      await until(laptop, { [first]: 'running', [second]: 'running', [third]: 'queued' })
      await until(desk, { [own]: 'running' })
      await expect.poll(() => freeSlotsOf(desk), { timeout: 30_000, interval: 100 }).toBe(0)

      for (const [hub, id] of [
        [laptop, own],
        [desk, first],
      ] as const) {
        expect(await refusals(hub, id)).toEqual(['not_found', 'not_found', 'not_found', 'not_found'])
      }
      expect(await desk.tool('wait_for_agents', { timeout_ms: 500 })).toMatchObject({ results: [], unconfirmed: [] })

      // A slot that gets free by another hub's end is none that this hub may have.
      expect(await desk.tool('stop_agent', { agent_id: own })).toMatchObject({ state: 'idle' })
      await expect.poll(() => freeSlotsOf(desk), { timeout: 30_000, interval: 100 }).toBe(1)
      await until(laptop, { [first]: 'running', [second]: 'running', [third]: 'queued' })
      await until(desk, { [own]: 'idle' })

      for (const agent_id of laptops) await laptop.tool('send_message', { agent_id, text: 'go on' })
      const results = await resultsOf(laptop, laptops)
      expect(results).toEqual(laptops.map((id) => [id, 'completed', mine.text]).sort())
      expect(await resultsOf(desk, [own])).toEqual([[own, 'stopped', theirs.text]])
      for (const hub of [laptop, desk]) {
        expect(await hub.tool('wait_for_agents', {})).toMatchObject({ results: [], events: [] })
      }
      await expectApart(world, { laptops, desks })
    })

    test('a machine that is started anew loses its agents as soon as its node is back, with that ground', async () => {
      const { laptop, people, folder } = world
      const [agent_id = ''] = await spawn(laptop, theirs.brief, 1)
      await expect.poll(() => stateOf(laptop, agent_id), { timeout: 60_000, interval: 200 }).toBe('running')

      // As when the power goes: all at once, so that nobody sees the end of another. And the kernel says that it is another start.
      for (const signal of ['SIGSTOP', 'SIGKILL'] as const) {
        for (const { pid } of processesTouching(people.worker.home)) process.kill(pid, signal)
      }
      const bootId = join(folder, 'boot-id')
      writeFileSync(bootId, `${randomUUID()}\n`)
      const started = `mount --bind '${bootId}' /proc/sys/kernel/random/boot_id`
      await people.worker.serve(`${started} && ANTHROPIC_API_KEY=sk-ant-test-0000 nfltr node join`, /worker is ready/)

      const { results } = await laptop.tool('wait_for_agents', { agent_ids: [agent_id], timeout_ms: 60_000 })
      expect(results).toMatchObject([{ agent_id, outcome: 'node_lost', details: { ground: 'rebooted' } }])
      const { agents } = await laptop.tool('list_agents', { limit: 1 })
      expect(agents).toMatchObject([{ agent_id, state: 'closed', liveness: { state: 'exited' } }])
    })
  },
)

/** Nothing of the one is anywhere in the home of the other: stores, logs, rosters. What is one's own is there. */
async function expectApart(
  world: World,
  ids: { readonly laptops: readonly string[]; readonly desks: readonly string[] },
): Promise<void> {
  const { people } = world
  const [first = ''] = ids.laptops
  const [own = ''] = ids.desks
  expect(
    await Promise.all([
      people.laptop.refused(`nfltr agent logs ${own}`),
      people.desk.refused(`nfltr agent logs ${first}`),
      people.laptop.refused(`nfltr agent receipt ${own}`),
      people.desk.refused(`nfltr agent receipt ${first}`),
    ]),
  ).toEqual(['not_found', 'not_found', 'not_found', 'not_found'])
  // Each asks the machine that both use for what it has on record, and is told of its own.
  for (const [person, own] of [
    [people.laptop, ids.laptops],
    [people.desk, ids.desks],
  ] as const) {
    const audit = await person.json('nfltr audit')
    expect(audit).toMatchObject({ ok: true, checked: { nodes: 1, nodes_not_asked: [] }, violations: [] })
    const agents = audit['agents'] as readonly Fields[]
    expect(agents.map(({ agent_id }) => agent_id).sort()).toEqual([...own].sort())
  }
  const ofLaptop = [...ids.laptops, mine.brief, mine.text]
  const ofDesk = [...ids.desks, theirs.brief, theirs.text]
  expect(foundIn(people.laptop.home, [...ofLaptop, ...ofDesk])).toEqual(ofLaptop)
  expect(foundIn(people.desk.home, [...ofLaptop, ...ofDesk])).toEqual(ofDesk)
}

async function spawn(hub: McpSession, brief: string, count: number): Promise<readonly string[]> {
  const ids: string[] = []
  for (let index = 0; index < count; index += 1) {
    const { agent_id } = await hub.tool('spawn_agent', { brief, machine: 'worker' })
    ids.push(String(agent_id))
  }
  return ids
}

/** Waits until the hub lists these agents, in these states, and no other. */
async function until(hub: McpSession, states: Readonly<Record<string, string>>): Promise<void> {
  const listed = async (): Promise<Fields> => {
    const { agents } = await hub.tool('list_agents', {})
    return Object.fromEntries((agents as readonly Fields[]).map(({ agent_id, state }) => [agent_id, state]))
  }
  await expect.poll(listed, { timeout: 60_000, interval: 200 }).toEqual(states)
}

async function stateOf(hub: McpSession, id: string): Promise<unknown> {
  const { agents } = await hub.tool('list_agents', {})
  return (agents as readonly Fields[]).find(({ agent_id }) => agent_id === id)?.['state']
}

async function freeSlotsOf(hub: McpSession): Promise<unknown> {
  const { nodes } = await hub.tool('list_nodes', {})
  return (nodes as readonly Fields[]).find(({ name }) => name === 'worker')?.['free_slots']
}

async function refusals(hub: McpSession, agent_id: string): Promise<readonly string[]> {
  const refused = [
    await hub.refused('get_result', { agent_id }),
    await hub.refused('send_message', { agent_id, text: 'from another hub' }),
    await hub.refused('stop_agent', { agent_id }),
    await hub.refused('wait_for_agents', { agent_ids: [agent_id], timeout_ms: 0 }),
  ]
  return refused.map(({ code }) => code)
}

async function resultsOf(hub: McpSession, agent_ids: readonly string[]): Promise<readonly unknown[]> {
  const { results } = await hub.tool('wait_for_agents', { agent_ids, mode: 'all', timeout_ms: 60_000 })
  return (results as readonly Fields[]).map(({ agent_id, outcome, text }) => [agent_id, outcome, text]).sort()
}

/** Which of these texts are in any file below a folder. */
function foundIn(folder: string, texts: readonly string[]): readonly string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const contents = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name)))
  return texts.filter((text) => contents.some((bytes) => bytes.includes(text)))
}

interface World {
  readonly folder: string
  readonly people: Readonly<Record<'laptop' | 'desk' | 'worker', Person>>
  readonly laptop: McpSession
  readonly desk: McpSession
  remove(): Promise<void>
}

async function newWorld(): Promise<World> {
  // Sockets have short paths only.
  const folder = mkdtempSync('/tmp/nfltr-lan-')
  const network = onASwitch('10.201.9', ['laptop', 'desk', 'worker'])
  const { machines } = network
  const sessions: McpSession[] = []
  const remove = async (): Promise<void> => {
    for (const session of sessions) await session.close()
    await removeFolder(folder)
    network.remove()
  }
  const scenario = join(folder, 'scenario.json')
  const turns = Object.fromEntries(
    [mine, theirs].map(({ brief, text }) => [brief, [{ say: text }, { wait_for_message: true }, { say: text }]]),
  )
  writeFileSync(scenario, JSON.stringify({ turns }))
  const person = (name: keyof typeof machines): Person =>
    new Person({ namespace: machines[name], home: join(folder, name), scenario })
  try {
    const people = { laptop: person('laptop'), desk: person('desk'), worker: person('worker') }
    await people.laptop.run('nfltr mesh create --name laptop')
    await invite(people.laptop, { to: people.worker, flags: '--name worker' })
    const joining = 'ANTHROPIC_API_KEY=sk-ant-test-0000 nfltr node join --invite-file invite.txt'
    await people.worker.serve(`${joining} --max-agents 3 --max-agents-per-hub 2`, /worker is ready/)
    await people.laptop.ended(inviting('--name worker'))
    const laptop = await people.laptop.session()
    sessions.push(laptop)
    // The hub plays the issuer, and stays: an invite that ends with the join may end before the joiner has heard of all members.
    await laptop.tool('list_nodes', {})
    await invite(people.laptop, { to: people.desk, flags: '--name desk --role hub' })
    await people.desk.run('nfltr mesh join --invite-file invite.txt')
    await people.laptop.ended(inviting('--name desk --role hub'))
    const desk = await people.desk.session()
    sessions.push(desk)
    return { folder, people, laptop, desk, remove }
  } catch (error) {
    await remove()
    throw error
  }
}

function inviting(flags: string): string {
  return `nfltr mesh invite ${flags} --json`
}

/** Begins to invite, and brings the invite to who is invited. */
async function invite(owner: Person, given: { readonly to: Person; readonly flags: string }): Promise<void> {
  const said = await owner.serve(inviting(given.flags), /"event":"invite".*\n/)
  const { invite: text } = JSON.parse(said) as Fields
  writeFileSync(join(given.to.home, 'invite.txt'), `${String(text)}\n`, { mode: 0o600 })
}
