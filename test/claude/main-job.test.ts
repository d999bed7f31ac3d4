import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { entries, hubSession, spawnStep, waitStep } from './hub-session.ts'
import { type RealMesh, realMesh } from './real-mesh.ts'

/** The main job on real input: the real program as the hub's client and as the agent, on two machines. */
let mesh: RealMesh
beforeAll(async () => {
  mesh = await realMesh()
})
afterAll(async () => {
  await mesh?.[Symbol.asyncDispose]()
})

describe('the main job', () => {
  test.each(['config', 'added'] as const)('ends with the answer byte for byte, server by %s', async (server) => {
    const brief = `count to 26, ${server}`
    const answer = Array.from({ length: 26 }, (_, index) => `line ${index + 1} \t ünïcode ✓ "${'\\'}"`).join('\n')
    mesh.play({
      [brief]: [
        { tools: [{ name: 'Write', input: { file_path: 'result.txt', content: answer } }] },
        { text: answer },
      ],
    })

    const session = await hubSession(mesh, [spawnStep(brief), waitStep('waited'), { text: 'Done.' }], { server })
    const spawned = await session.returned('spawned')
    const reply = await session.returned('waited')

    expect(await session.finished).toMatchObject({ code: 0, stdout: 'Done.\n' })
    expect(entries(reply)).toHaveLength(1)
    expect(entries(reply)[0]).toMatchObject({ agent_id: spawned['agent_id'], outcome: 'completed', text: answer })
  })
})
