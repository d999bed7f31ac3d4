import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cutPage, jsonBytes } from '../../src/hub/pages.ts'
import { settle } from '../contracts/manual-clock.ts'
import { completed } from './support/scripted-node.ts'
import { TwinHub } from './support/twin-hub.ts'

const utf8 = new TextEncoder()

interface Page {
  readonly text: string
  readonly text_bytes: number
  readonly next_offset?: number
}

/** A hub with one agent per text, all ended. */
async function withTexts(...texts: readonly string[]) {
  const twin = await TwinHub.withNodes({ name: 'vm1', slots: texts.length })
  const agents: string[] = []
  for (const _ of texts) agents.push((await twin.spawn()).agent_id)
  await settle()
  for (const [index, text] of texts.entries()) {
    const claim = twin.node('vm1').claims[index]
    if (claim === undefined) throw new Error('no claim came')
    await twin.node('vm1').end(claim.ref, completed(text))
    await settle(60)
  }
  return { twin, agents }
}

/** All of a text, page by page. */
async function readOn(twin: TwinHub, args: Record<string, unknown>, from: Page): Promise<string> {
  let text = from.text
  for (let offset = from.next_offset; offset !== undefined; ) {
    const page = await twin.ask<Page>('get_result', { ...args, offset })
    text += page.text
    offset = page.next_offset
  }
  return text
}

describe('pages of a text', () => {
  test('join to the text, end on character boundaries and stay within their bound', () => {
    const anyText = fc.string({ unit: 'grapheme', maxLength: 2_000 })

    fc.assert(
      fc.property(anyText, fc.integer({ min: 20, max: 600 }), (text, maxJsonBytes) => {
        const bytes = utf8.encode(text)
        let joined = ''
        for (let offset: number | undefined = 0; offset !== undefined; ) {
          const page = cutPage(bytes, { offset, maxJsonBytes, minBytes: 1 })
          expect(jsonBytes(page.text) - 2).toBeLessThanOrEqual(maxJsonBytes)
          expect(page.text.isWellFormed() && !page.text.includes('\uFFFD')).toBe(
            !text.includes('\uFFFD') || !page.text.includes('\uFFFD'),
          )
          joined += page.text
          offset = page.nextOffset
        }
        expect(joined).toBe(text)
      }),
    )
  })

  test('hold at least the first bytes asked for, to the end of the character', () => {
    const page = cutPage(utf8.encode('文'.repeat(1_000)), { offset: 0, maxJsonBytes: 0, minBytes: 1_000 })

    expect(page).toEqual({ text: '文'.repeat(334), nextOffset: 1_002 })
  })

  test('keep a byte order mark, and move an offset inside a character back to its start', () => {
    const bytes = utf8.encode('\uFEFFéa')

    expect(cutPage(bytes, { offset: 0, maxJsonBytes: 100, minBytes: 1 }).text).toBe('\uFEFFéa')
    expect(cutPage(bytes, { offset: 4, maxJsonBytes: 100, minBytes: 1 }).text).toBe('éa')
    expect(cutPage(bytes, { offset: 99, maxJsonBytes: 100, minBytes: 1 })).toEqual({ text: '' })
  })
})

describe('results that do not fit a reply', () => {
  test('a 5 MiB answer is paged byte-equal', async () => {
    const line = 'ein "Zitat",\ttab, \u0001 und 文字 🎈\n'
    const text = line.repeat(Math.ceil((5 * 1024 * 1024) / utf8.encode(line).length))
    const { twin, agents } = await withTexts(text)

    const reply = await twin.wait()
    const [first] = reply.results
    if (first === undefined) throw new Error('no result')
    const joined = await readOn(twin, { agent_id: agents[0], max_bytes: 200_000 }, first as unknown as Page)

    expect(first['text_bytes']).toBe(utf8.encode(text).length)
    expect(joined === text).toBe(true)
  }, 60_000)

  test('50,000 CJK characters stay within the bound, cut on a character', async () => {
    const text = '漢'.repeat(50_000)
    const { twin, agents } = await withTexts(text)

    for (const max_bytes of [4_096, 40_000, 200_000]) {
      const body = (await twin.call('get_result', { agent_id: agents[0], max_bytes })).body
      const page = JSON.parse(body) as Page
      expect(utf8.encode(body).length).toBeLessThanOrEqual(max_bytes)
      expect(page.text).toBe('漢'.repeat(page.text.length))
      expect(page.next_offset).toBe(page.text.length === 50_000 ? undefined : page.text.length * 3)
    }
    const body = (await twin.call('wait_for_agents', { max_bytes: 4_096 })).body
    expect(utf8.encode(body).length).toBeLessThanOrEqual(4_096)
    const [first] = (JSON.parse(body) as { results: Page[] }).results
    expect(first?.next_offset).toBeGreaterThanOrEqual(1_000)
    if (first !== undefined) expect(await readOn(twin, { agent_id: agents[0] }, first)).toBe(text)
  })

  test('entries that do not fit stay undelivered, in order, and are counted', async () => {
    const { twin, agents } = await withTexts(...Array.from({ length: 6 }, (_, no) => `${no}`.repeat(3_000)))

    const replies = [await twin.wait({ max_bytes: 4_096 })]
    while ((replies.at(-1)?.facts.undelivered ?? 0) > 0) replies.push(await twin.wait({ max_bytes: 4_096 }))

    const seen = replies.flatMap((reply) => reply.results.map((result) => result.agent_id))
    expect(seen).toEqual(agents)
    expect(replies.length).toBeGreaterThan(1)
    expect(replies.map((reply) => reply.facts.undelivered)).toEqual(
      replies.map((_, index) => 6 - replies.slice(0, index + 1).flatMap((reply) => reply.results).length),
    )
    for (const reply of replies) {
      expect(jsonBytes(reply)).toBeLessThanOrEqual(4_096)
      for (const result of reply.results) {
        expect(result.text.length).toBeGreaterThanOrEqual(1_000)
        expect(result.next_offset).toBe(result.text.length === 3_000 ? undefined : result.text.length)
      }
    }
  })

  test('one entry comes whatever its size', async () => {
    const { twin } = await withTexts('\u0001'.repeat(20_000))

    const reply = await twin.wait({ max_bytes: 4_096 })

    expect(reply.results[0]?.text.length).toBe(1_000)
  })

  test('a bound that holds everything cuts nothing', async () => {
    const { twin } = await withTexts('short', 'also short')

    const reply = await twin.wait()

    expect(reply.results.map((result) => [result.text, result.next_offset])).toEqual([
      ['short', undefined],
      ['also short', undefined],
    ])
  })
})
