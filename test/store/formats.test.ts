import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { bornOf, readMarker, writeMarker } from '../../src/store/store-files.ts'
import { Pair } from '../rollback/pair.ts'

/**
 * Stores as a version wrote them that had the format in their name: frozen, never made anew. Both sides were stopped with one result read,
 * one not read, and one turn running.
 */
const fixtures = join(import.meta.dirname, '../fixtures')
const read = 'agt_e46ce5faeb895e319fa8efabfe8f1acd'
const unread = 'agt_c9f7ff4d894d6fd025fd455f49dbfaf1'
const running = 'agt_0daf7ed1ba651e382896da840e7dad73'

let pair: Pair

beforeEach(() => {
  pair = new Pair()
})
afterEach(() => pair.close())

describe('stores of format 1', () => {
  test('open in this version and lose nothing, a result that nobody had read included', async () => {
    for (const side of ['hub', 'node'] as const) bringIn(side)

    await pair.start()
    const { results, events } = await pair.results(2)

    expect(events).toEqual([])
    expect(results).toMatchObject([
      { agent_id: unread, outcome: 'completed', text: 'all done' },
      // Its keeper was on another machine than this test's.
      { agent_id: running, outcome: 'node_lost' },
    ])
    for (const result of results) expect(result).not.toHaveProperty('maybe_seen')
    expect((await pair.agents()).map(({ agent_id }) => agent_id).sort()).toEqual([read, unread, running].sort())
    const again = await pair.ask<{ text: string }>('get_result', { agent_id: read })
    expect(again.text).toBe('all done')
    const next = await pair.spawn('new end')
    expect((await pair.results(1)).results).toMatchObject([{ agent_id: next, outcome: 'completed' }])
  })

  test('of a later version are refused by name', async () => {
    bringIn('hub')
    const path = join(pair.root, 'hub/db.marker')
    const marker = readMarker(path)
    if (marker === undefined) throw new Error('no marker')
    writeMarker(path, { ...marker, format: 2 })
    await pair.startNode()

    await expect(pair.startHub()).rejects.toMatchObject({ code: 'store_newer', details: { format: 2 } })
  })
})

/** As if this machine had written it. */
function bringIn(side: 'hub' | 'node'): void {
  const folder = join(pair.root, side)
  rmSync(folder, { recursive: true, force: true })
  cpSync(join(fixtures, 'store-1', side), folder, { recursive: true })
  const path = join(folder, 'db.marker')
  const marker = readMarker(path)
  const born = bornOf(join(folder, 'db'))
  if (marker === undefined || born === undefined) throw new Error('no marker')
  writeMarker(path, { ...marker, born })
}
