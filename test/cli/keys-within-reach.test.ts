import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { keysWithinReach } from '../../src/cli/compose/keys-within-reach.ts'

describe('keys within reach of agents with every tool', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'nfltr-keys-'))
  })
  afterEach(() => rm(folder, { recursive: true }))

  test('are none on a machine that is only a node', async () => {
    await writeFile(join(folder, 'machine.key'), '')

    expect(await keysWithinReach(folder)).toBeUndefined()
    expect(await keysWithinReach(join(folder, 'missing'))).toBeUndefined()
  })

  test('are named: the key of the mesh, and a hub’s', async () => {
    await writeFile(join(folder, 'mesh.key'), '')
    await writeFile(join(folder, 'hub-web.key'), '')

    const said = await keysWithinReach(folder)

    expect(said).toContain('the key of the mesh')
    expect(said).toContain("a hub's key")
    expect(said).toContain('--allow-all-tools')
  })
})
