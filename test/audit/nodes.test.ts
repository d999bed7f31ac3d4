import { beforeAll, describe, expect, test } from 'vitest'
import type { AuditReport } from '../../src/audit/audit-run.ts'
import { audit } from '../../src/cli/commands/audit.ts'
import type { CliIo } from '../../src/cli/io.ts'
import { type ErrorCode, NfltrError } from '../../src/core/errors.ts'
import { limits } from '../../src/core/limits.ts'
import type { NodeAccount, NodeAttemptAccount } from '../../src/core/node-account.ts'
import { type Account, auditOf, honestAccount, worldOf } from './support/audited.ts'

let honest: Account
beforeAll(async () => {
  honest = await honestAccount()
})

/** What the node would say, with some of it changed. */
const doctored = (
  change: (attempt: NodeAttemptAccount, index: number) => Partial<NodeAttemptAccount>,
): NodeAccount => ({
  ...honest.node,
  attempts: honest.node.attempts.map((attempt, index) => ({ ...attempt, ...change(attempt, index) })),
})

/** An audit of a hub whose one node is another machine, which answers so. */
const audited = (answer: (peerId: string, after?: string) => NodeAccount | NfltrError): Promise<AuditReport> =>
  auditOf(honest, {
    away: (peerId) => async (after) => {
      const page = answer(peerId, after)
      if (page instanceof NfltrError) throw page
      return page
    },
  })

const told = ({ violations }: AuditReport): readonly (readonly [string, string | undefined, boolean])[] =>
  violations.map(({ check, agentId, message }) => [check, agentId, message.includes(honest.node.peerId)])

describe('a node of another machine', () => {
  test('is asked by its hub, page by page, and is one of the nodes that were checked', async () => {
    const asked: (readonly [string, string | undefined])[] = []
    const report = await audited((peerId, after) => {
      asked.push([peerId, after])
      const [attempt] = honest.node.attempts.filter(({ attemptId }) => after === undefined || attemptId > after)
      const isLast = attempt === honest.node.attempts.at(-1)
      const next = attempt === undefined || isLast ? {} : { next: attempt.attemptId }
      return { peerId, attempts: attempt === undefined ? [] : [attempt], ...next }
    })

    expect(report).toMatchObject({ nodes: 1, notAsked: [], violations: [] })
    expect(asked[0]).toEqual([honest.node.peerId, undefined])
    expect(asked.length).toBeGreaterThan(1)
  })

  test.each<readonly [ErrorCode, RegExp]>([
    ['link_down', /away/],
    ['timed_out', /slow/],
    ['unsupported', /old/],
    ['protocol_violation', /lies/],
    ['store_damaged', /broken/],
  ])('that cannot be asked (%s) is named, and nothing is held against anybody', async (code, why) => {
    const report = await audited(() => new NfltrError(code, `away, slow, old, lies or broken`))

    expect(report).toMatchObject({ nodes: 0, violations: [] })
    expect(report.notAsked).toMatchObject([{ name: 'vm1', why: { code, message: expect.stringMatching(why) } }])
  })

  test('of which half an answer came counts as not asked', async () => {
    const report = await audited((_, after) =>
      after === undefined
        ? { ...doctored(() => ({ textHash: 'another' })), next: 'att_z' }
        : new NfltrError('protocol_violation', 'The attempts on the page were not in their order.'),
    )

    expect(report).toMatchObject({ nodes: 0, notAsked: [{ name: 'vm1' }], violations: [] })
  })

  test('that never comes to an end counts as not asked', async () => {
    let pages = 0
    const foreign = { ...honest.node.attempts[0], attemptId: 'none of this hub' } as NodeAttemptAccount
    const page = new Array<NodeAttemptAccount>(50 * limits.accountPageMax).fill(foreign)

    const report = await audited((peerId) => {
      pages += 1
      return { peerId, attempts: page, next: 'and on' }
    })

    expect(report.notAsked).toMatchObject([{ name: 'vm1', why: { code: 'protocol_violation' } }])
    expect(pages).toBe(limits.accountAttemptsMax / page.length + 1)
  })
})

describe('nfltr audit', () => {
  /** What the command answers and says, where the one node answers so. */
  async function said(failure: NfltrError) {
    const answers: { document: object; text: string }[] = []
    const warnings: string[] = []
    const io = {
      answer: (document: object, text: string) => answers.push({ document, text }),
      warn: (text: string) => warnings.push(text),
    } as unknown as CliIo
    await audit(worldOf(honest, { away: () => () => Promise.reject(failure) }, io)).parseAsync([], { from: 'user' })
    return { document: answers[0]?.document, text: answers[0]?.text, warnings }
  }

  test.each<readonly [ErrorCode, string]>([
    ['link_down', 'vm1 (not connected)'],
    ['timed_out', 'vm1 (no answer in time)'],
    ['unsupported', 'vm1 (an earlier version)'],
    ['store_damaged', 'vm1 (store_damaged: so it is)'],
  ])('says why a node was not asked (%s), and names it in the document', async (code, why) => {
    const { document, text, warnings } = await said(new NfltrError(code, 'so it is'))

    expect(document).toMatchObject({ ok: true, checked: { nodes: 0, nodes_not_asked: ['vm1'] }, violations: [] })
    expect(text).toContain(`Known by receipts alone, not asked: ${why}.`)
    expect(warnings).toEqual([])
  })

  test('says on standard error, whoever reads the document, that an answer was none', async () => {
    const { document, warnings } = await said(new NfltrError('invalid_frame', 'A message was refused.'))

    expect(document).toMatchObject({ ok: true, checked: { nodes: 0, nodes_not_asked: ['vm1'] } })
    expect(warnings).toEqual(['vm1 gave an answer that is none: A message was refused.'])
  })
})

describe('a doctored answer', () => {
  const agentOf = (index: number): string | undefined => honest.node.attempts[index]?.agentId

  test('with another result is held against the node by name, and against the agent that the hub knows', async () => {
    const report = await audited(() =>
      doctored((_, index) => (index === 1 ? { textHash: 'another', agentId: 'agt_of_nobody' } : {})),
    )

    expect(told(report)).toEqual([['same-result', agentOf(1), true]])
  })

  test('with another epoch, or of an attempt that another machine was given, is held against the node', async () => {
    expect(told(await audited(() => doctored((_, index) => (index === 2 ? { epoch: 99 } : {}))))).toEqual([
      ['owner', agentOf(2), true],
    ])
    const thief = { ...honest.node, peerId: 'another machine' }
    const messages = (await audited(() => thief)).violations.map(({ check, message }) => `${check}: ${message}`)
    expect(messages).toHaveLength(3)
    expect(messages.every((message) => message.startsWith('owner: another machine has the attempt'))).toBe(true)
  })

  test('that says it works on what has ended is looked at again, and held against the node if it stays so', async () => {
    const pauses: number[] = []
    const report = await auditOf(honest, {
      away: () => async () => doctored((_, index) => ({ isOpen: index === 0 })),
      pause: (ms) => pauses.push(ms),
    })

    expect(told(report)).toEqual([['ended-once', agentOf(0), true]])
    expect(pauses).toHaveLength(3)
  })

  test('about attempts that the hub does not know says nothing about the hub', async () => {
    const report = await audited(() =>
      doctored(({ attemptId }) => ({ attemptId: `${attemptId}x`, isOpen: true, textHash: 'another' })),
    )

    expect(report).toMatchObject({ nodes: 1, violations: [] })
  })
})

describe('an answer about work that goes on', () => {
  test('by a node that is about to find that a turn of before has ended is no fault', async () => {
    let looks = 0
    const report = await auditOf(honest, {
      away: () => async () => {
        looks += 1
        return doctored((_, index) => (index === 0 && looks < 3 ? { isOpen: true } : {}))
      },
    })

    expect(report).toMatchObject({ nodes: 1, violations: [] })
    expect(looks).toBe(3)
  })

  test('that is ahead of the hub, by an end, a receipt or an attempt that the hub had not yet, is no fault', async () => {
    const running = honest.lines.flatMap((line) =>
      line.part === 'agent'
        ? line.agent.tasks.flatMap(({ taskId, end, attempts }) =>
            end === undefined
              ? attempts.map(({ attemptId, epoch }) => ({ taskId, attemptId, epoch, agentId: line.agent.agentId }))
              : [],
          )
        : [],
    )
    expect(running).toHaveLength(1)
    const later = running.flatMap((attempt) => [
      { ...attempt, hubId: 'hub_1', isOpen: false, textHash: 'its end', receiptId: 'rcp_on_its_way' },
      { ...attempt, attemptId: 'att_made_since', epoch: 7, hubId: 'hub_1', isOpen: true },
    ])

    const report = await audited(() => ({ ...honest.node, attempts: [...honest.node.attempts, ...later] }))

    expect(report).toMatchObject({ nodes: 1, violations: [] })
  })

  test('in which texts, receipts and whole attempts were let go of in their time is no fault', async () => {
    const attempts = doctored(() => ({}))
      .attempts.slice(1)
      .map(({ textHash: _, receiptId: __, ...left }) => left)

    const report = await audited(() => ({ ...honest.node, attempts }))

    expect(report).toMatchObject({ nodes: 1, violations: [] })
  })
})
