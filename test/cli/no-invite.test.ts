import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { compose } from '../../src/cli/compose.ts'
import { type CliIo, exitCodeOf, terminalIo } from '../../src/cli/io.ts'
import { NfltrError } from '../../src/core/errors.ts'

let home: string

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'nfltr-no-invite-'))
})

afterEach(() => rm(home, { recursive: true, force: true }))

async function refusalOf(work: Promise<unknown>): Promise<NfltrError> {
  const thrown: unknown = await work.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (thrown instanceof NfltrError) return thrown
  throw new Error('it was not refused', { cause: thrown })
}

describe('without an invite', () => {
  const io: CliIo = { ...terminalIo({ isJson: true }), isInteractive: false }

  test.each(['node join', 'mesh join'] as const)(
    '%s is refused and makes no member of the machine',
    async (command) => {
      const world = compose({ io, env: { HOME: home, PATH: '' } })
      const work =
        command === 'node join'
          ? world.node.join({ home }, () => undefined)
          : world.mesh.join({ home }, () => undefined)
      const refusal = await refusalOf(work)

      expect([refusal.code, exitCodeOf(refusal)]).toEqual(['no_invite', 3])
      await expect(readdir(join(home, 'mesh'))).rejects.toThrow('ENOENT')
    },
  )
})
