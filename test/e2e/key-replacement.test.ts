import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Machine, newMachine } from './machine.ts'
import { type MeshOfTwo, meshOfTwo } from './mesh-of-two.ts'

type Fields = Readonly<Record<string, unknown>>

const passphrase = 'correct horse battery staple'

let mesh: MeshOfTwo
/** Takes the mesh over. */
let desk: Machine
/** Has the laptop's home as it was. */
let finder: Machine
beforeAll(async () => {
  mesh = await meshOfTwo()
  desk = await newMachine()
  finder = await newMachine()
}, 60_000)
afterAll(async () => {
  await mesh?.[Symbol.asyncDispose]()
  await desk?.[Symbol.asyncDispose]()
  await finder?.[Symbol.asyncDispose]()
})

const names = (document: Fields, field: string): readonly unknown[] =>
  (document[field] as readonly Fields[]).map(({ name }) => name).sort()

describe('the key of a mesh, when the owner’s laptop is lost', () => {
  test('is replaced on another machine, and the mesh goes on without anybody joining anew', async () => {
    const file = join(mesh.hub.project, 'recovery.json')
    await mesh.hub.json(['mesh', 'key', 'export', file, '--passphrase-file', '-'], { input: passphrase })
    await cp(mesh.hub.home, finder.home, { recursive: true })
    const before = (await mesh.node.json(['mesh', 'show'])) as Fields
    await desk.json(['mesh', 'key', 'import', file, '--name', 'desk', '--passphrase-file', '-'], { input: passphrase })
    const { listen } = before as { readonly listen: readonly string[] }
    const serving = desk.start(['hub', 'serve', '--peer', String(listen[0])])
    await serving.event('ready')
    await desk.json(['mesh', 'revoke', 'laptop'])

    const replaced = await desk.json(['mesh', 'key', 'replace'])

    expect([names(replaced, 'members'), names(replaced, 'confirmed'), names(replaced, 'left_out')]).toEqual([
      ['desk', 'vm1'],
      ['desk', 'vm1'],
      [],
    ])
    expect(before['mesh_key_fingerprint']).toBeUndefined()
    expect(await mesh.node.json(['mesh', 'show'])).toMatchObject({
      mesh_id: before['mesh_id'],
      mesh_fingerprint: before['mesh_fingerprint'],
      mesh_key_fingerprint: replaced['mesh_key_fingerprint'],
    })
    await mesh.play({ hello: [{ say: 'still here' }] })
    await desk.json(['agent', 'spawn', '--machine', 'vm1', '--brief-file', '-'], { input: 'hello' })
    const { results } = await desk.json(['agent', 'wait', '--timeout', '60s'])
    expect(results).toMatchObject([{ outcome: 'completed', text: 'still here' }])
    const old = await newMachine()
    const imported = await old.run(['mesh', 'key', 'import', file, '--name', 'x', '--passphrase-file', '-', '--json'], {
      input: passphrase,
    })
    const joined = await old.run(
      ['agent', 'spawn', '--machine', 'vm1', '--timeout-ms', '0', '--brief-file', '-', '--json'],
      {
        input: 'hello',
      },
    )
    await old[Symbol.asyncDispose]()
    expect([imported.code, joined.stdout.includes('still here')]).toEqual([0, false])
  }, 300_000)

  test('names no second one there, and lets in invited machines under the new key', async () => {
    const again = await mesh.node.run(['mesh', 'key', 'replace', '--json'])
    expect(JSON.parse(again.stdout)).toMatchObject({ error: { code: 'not_owner' } })
    const inviting = desk.start(['mesh', 'invite', '--role', 'hub', '--name', 'tablet'])
    const { invite } = await inviting.event('invite')
    const tablet = await newMachine()
    await tablet.json(['mesh', 'join', '--invite-file', '-'], { input: String(invite) })
    await inviting.event('joined')
    const { members } = await tablet.json(['mesh', 'members'])
    expect((members as readonly Fields[]).map(({ name, state }) => [name, state])).toContainEqual(['vm1', 'online'])
    await tablet[Symbol.asyncDispose]()
  }, 120_000)

  test('closes the mesh where whoever has the former one names another, and says so', async () => {
    mesh.running().kill()
    await mesh.running().finished
    await finder.json(['mesh', 'key', 'replace'])
    await mesh.restartNode()

    // It dials the node, and each tells the other which successor it knows.
    const { listen } = (await mesh.node.json(['mesh', 'show'])) as { readonly listen: readonly string[] }
    await finder.run(['mesh', 'members'], { env: { NFLTR_PEERS: listen.join(',') } })

    await expect
      .poll(async () => (await mesh.node.json(['mesh', 'show']))['closed'], { timeout: 30_000, interval: 500 })
      .toBe(true)
    const doctor = JSON.parse((await mesh.node.run(['doctor', '--json'])).stdout) as {
      readonly checks: readonly Fields[]
    }
    expect(doctor.checks.find(({ name }) => name === 'mesh')).toMatchObject({
      ok: false,
      message: expect.stringContaining('two different successors'),
    })
    const { alarms } = await mesh.node.json(['mesh', 'members'])
    expect(alarms).toMatchObject([
      { successors: [expect.stringMatching(/^SHA256:/), expect.stringMatching(/^SHA256:/)] },
    ])
    const refused = await desk.run(['mesh', 'revoke', 'vm1', '--json'])
    expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: 'mesh_closed' } })
  }, 300_000)
})
