import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { compose } from '../../src/cli/compose.ts'
import { type CliIo, exitCodeOf, terminalIo } from '../../src/cli/io.ts'
import { NfltrError } from '../../src/core/errors.ts'
import { encodeInvite } from '../../src/identity/invites.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'

let home: string

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'nfltr-foreign-invite-'))
})
afterEach(() => rm(home, { recursive: true, force: true }))

test.each(['node join', 'mesh join'] as const)('%s of a member refuses an invite of another mesh', async (command) => {
  const invite = encodeInvite({
    meshId: peerIdOf(await generateKey()),
    issuerPeerId: peerIdOf(await generateKey()),
    addresses: ['/ip4/192.0.2.7/tcp/4702'],
    relays: [],
    inviteId: 'a1'.repeat(16),
    secret: new Uint8Array(16).fill(9),
    expiresAtMs: Date.now() + 60_000,
  })
  const io: CliIo = { ...terminalIo({ isJson: true }), isInteractive: false }
  const world = compose({ io, env: { HOME: home, PATH: '', NFLTR_INVITE: invite } })
  await world.mesh.create({ home, name: 'laptop' })

  const work =
    command === 'node join'
      ? world.node.join({ home, listen: ['/ip4/127.0.0.1/tcp/0'] }, () => undefined)
      : world.mesh.join({ home }, () => undefined)
  const refusal: unknown = await work.catch((error: unknown) => error)

  if (!(refusal instanceof NfltrError)) throw new Error('it was not refused', { cause: refusal })
  expect([refusal.code, exitCodeOf(refusal)]).toEqual(['wrong_mesh', 3])
})
