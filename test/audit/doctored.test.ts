import { beforeAll, describe, expect, test } from 'vitest'
import type { HistoryEvent } from '../../src/core/history.ts'
import type { AccountLine } from '../../src/core/hub-account.ts'
import { generateKey, peerIdOf } from '../../src/identity/keys.ts'
import {
  type Account,
  auditOf,
  historyOf,
  honestAccount,
  receiptOf,
  sha256,
  withHistory,
  withLines,
} from './support/audited.ts'

type Of<Type extends HistoryEvent['type']> = Extract<HistoryEvent, { type: Type }>

let honest: Account
beforeAll(async () => {
  honest = await honestAccount()
})

/** The names of the checks that found something, each once. */
const found = async (account: Account): Promise<readonly string[]> => {
  const { violations } = await auditOf(account)
  return [...new Set(violations.map(({ check }) => check))].sort()
}

function first<Type extends HistoryEvent['type']>(
  type: Type,
  test: (event: Of<Type>) => boolean = () => true,
): Of<Type> {
  const event = historyOf(honest).find((one): one is Of<Type> => one.type === type && test(one as Of<Type>))
  if (event === undefined) throw new Error(`the history has no ${type}`)
  return event
}

/** The honest history with an event put in behind another, chained anew. */
function behind(event: HistoryEvent, added: HistoryEvent): Account {
  return withHistory(
    honest,
    historyOf(honest).flatMap((one) => (one.seq === event.seq ? [one, added] : [one])),
  )
}

/** The honest history with one event replaced, chained anew. */
function instead(event: HistoryEvent, other: HistoryEvent): Account {
  return withHistory(
    honest,
    historyOf(honest).map((one) => (one.seq === event.seq ? other : one)),
  )
}

describe('an honest history', () => {
  test('is clean, and tells of each agent that its result was accepted once and delivered once', async () => {
    const report = await auditOf(honest)

    expect(report.violations).toEqual([])
    expect(report).toMatchObject({ receipts: 3, nodes: 1, notAsked: [] })
    expect(report.events).toBe(historyOf(honest).length + 6)
    expect(report.agents.map(({ results }) => results)).toMatchObject([
      [{ outcome: 'completed', accepted: 1, delivered: 1, isSettled: true }],
      [{ outcome: 'completed', accepted: 1, delivered: 1, isSettled: true }],
      [{ outcome: 'completed', accepted: 1, delivered: 1, isSettled: true }],
      [],
    ])
  })

  test('names the machines whose own record nobody read', async () => {
    const { notAsked, violations } = await auditOf({ ...honest, node: { peerId: 'another machine', attempts: [] } })

    expect(notAsked.map(({ name }) => name)).toEqual(['vm1'])
    expect(violations).toEqual([])
  })

  test('is still clean when its chain was made anew over the same events', async () => {
    expect(await found(withHistory(honest, historyOf(honest)))).toEqual([])
  })
})

describe('an account that was read while its hub worked on', () => {
  const last = () => {
    const [ended, receipt] = [
      historyOf(honest)
        .filter(({ type }) => type === 'result')
        .at(-1),
      historyOf(honest).filter(({ type }) => type === 'receipt_taken')[1],
    ]
    if (ended?.type !== 'result' || receipt?.type !== 'receipt_taken') throw new Error('the history lacks an end')
    return { ended, receipt }
  }

  test('may have the end of a turn whose agent was read before it, and of no other', async () => {
    const { ended } = last()
    const account = withLines(honest, (line) => {
      if (line.part !== 'agent' || line.agent.agentId !== ended.agentId) return line
      const tasks = line.agent.tasks.map(({ end: _, receiptId: __, times, ...task }) => {
        const { settle: ___, ...before } = times
        return { ...task, times: before }
      })
      return { part: 'agent', agent: { ...line.agent, tasks } }
    })

    expect((await auditOf(account, { firstSeq: ended.seq - 1 })).violations).toEqual([])
    expect(await found(account)).toEqual(['one-outcome'])
  })

  test('may lack a receipt that came behind the place where they were read, though not the one that follows it', async () => {
    const { receipt } = last()
    const account = withLines(honest, (line) => {
      if (line.part === 'receipt' && line.taskId === receipt.taskId) return undefined
      if (line.part !== 'agent' || line.agent.agentId !== receipt.agentId) return line
      const tasks = line.agent.tasks.map(({ receiptId: _, ...task }) => task)
      return { ...line, agent: { ...line.agent, tasks } }
    })

    expect((await auditOf(account, { firstSeq: receipt.seq - 1 })).violations).toEqual([])
    expect(await found(account)).toEqual(['receipts'])
  })
})

describe('a doctored history', () => {
  test('in which a finished task is live again', async () => {
    const end = first('attempt_became', ({ phase }) => phase === 'ended')

    expect(await found(behind(first('result'), { ...end, phase: 'running' }))).toEqual([
      'ended-once',
      'history-complete',
    ])
  })

  test('in which a node still works on what its hub has settled', async () => {
    const attempts = honest.node.attempts.map((attempt, index) => ({ ...attempt, isOpen: index === 0 }))

    expect(await found({ ...honest, node: { ...honest.node, attempts } })).toEqual(['ended-once'])
  })

  test('in which a result is accepted twice', async () => {
    const result = first('result')

    expect(await found(behind(result, result))).toEqual(['accepted-once'])
  })

  test('in which an entry is in two replies', async () => {
    const offer = first('offered', ({ carries }) => carries.includes(first('result').deliveryId))

    expect(await found(behind(offer, { ...offer, offerId: 'another' }))).toEqual(['offered-once'])
  })

  test('in which what was read is given again', async () => {
    const settled = first('settled', ({ deliveryIds }) => deliveryIds.includes(first('result').deliveryId))
    const offer = first('offered', ({ carries }) => carries.includes(first('result').deliveryId))
    const events = historyOf(honest).flatMap((one): readonly HistoryEvent[] => {
      if (one.seq === offer.seq) return [one, { ...offer, type: 'withdrawn' }]
      return one.seq === settled.seq ? [one, { ...offer, offerId: 'another' }] : [one]
    })

    expect(await found(withHistory(honest, events))).toEqual(['offered-once'])
  })

  test('in which the completion comes from the wrong owner', async () => {
    const result = first('result')

    expect(await found(instead(result, { ...result, by: 'another machine' }))).toEqual(['owner'])
  })

  test('in which the completion is of an older epoch', async () => {
    const result = first('result')

    expect(await found(instead(result, { ...result, epoch: 7 }))).toEqual(['owner'])
  })

  test('in which a task has two owners at a time', async () => {
    const made = first('attempt_made')
    const other = { ...made, attemptId: 'att_other', epoch: made.epoch + 1 }

    expect(await found(behind(made, other))).toEqual(['one-owner'])
  })

  test('in which an epoch was given twice', async () => {
    const made = first('attempt_made')
    const declined: HistoryEvent = { ...made, type: 'attempt_became', phase: 'declined', atMs: 1 }
    const events = historyOf(honest).flatMap((one): readonly HistoryEvent[] =>
      one.seq === made.seq
        ? [{ ...made, attemptId: 'att_other' }, { ...declined, attemptId: 'att_other' }, one]
        : [one],
    )

    expect(await found(withHistory(honest, events))).toEqual(['one-owner'])
  })

  test('in which an event was taken out', async () => {
    const taken = first('confirmed')

    const account = withLines(honest, (line) =>
      line.part === 'history' && line.record.event.seq === taken.seq ? undefined : line,
    )

    expect(await found(account)).toEqual(['history-chain', 'offered-once'])
  })

  test('in which an event says something else than it did', async () => {
    const offer = first('offered')

    const account = withLines(honest, (line) =>
      line.part === 'history' && line.record.event.seq === offer.seq
        ? { ...line, record: { ...line.record, event: { ...line.record.event, atMs: 1 } } }
        : line,
    )

    expect(await found(account)).toEqual(['history-chain'])
  })

  test('that was cut off at its end', async () => {
    const { seq } = honest.head
    const account = withLines(honest, (line) =>
      line.part === 'history' && line.record.event.seq === seq ? undefined : line,
    )

    expect(await found(account)).toContain('history-chain')
  })

  test('that does not tell of an entry that is on record', async () => {
    const stray = { part: 'entry', deliveryId: 999, kind: 'event', atMs: 1 } as const

    expect(await found({ ...honest, lines: [stray, ...honest.lines] })).toEqual(['history-complete'])
  })

  test('in which what was accepted and not read waits for nobody', async () => {
    const settled = first('settled', ({ deliveryIds }) => deliveryIds.includes(first('result').deliveryId))
    const account = withHistory(
      honest,
      historyOf(honest).filter(({ seq }) => seq !== settled.seq),
    )

    const { violations } = await auditOf(account)
    expect([...new Set(violations.map(({ check }) => check))]).toEqual(['still-deliverable'])
    expect(violations.map(({ message }) => message).join()).toContain(`entry ${first('result').deliveryId} `)
  })

  test('in which an open agent would not be found when its hub starts, or one that ended is', async () => {
    const kept = honest.lines.filter((line) => line.part === 'agent')
    expect(kept.map(({ isFound }) => isFound)).toEqual(expect.arrayContaining([false]))

    for (const isFound of [true, false]) {
      const account = withLines(honest, (line) =>
        line.part === 'agent' && line.isFound === !isFound ? { ...line, isFound } : line,
      )
      const isChanged = kept.some((line) => line.isFound === !isFound)
      expect(await found(account)).toEqual(isChanged ? ['found-at-start'] : [])
    }
  })

  test('in which what was settled is open', async () => {
    const { deliveryId } = first('result')
    const open = { part: 'open', deliveryId, state: 'undelivered' } as const

    expect(await found({ ...honest, lines: [open, ...honest.lines] })).toEqual(['still-deliverable'])
  })

  test('in which a reply is gone that an entry waits in', async () => {
    const given = honest.lines.filter((line) => line.part === 'open' && line.state === 'given')
    expect(given).not.toEqual([])

    expect(await found(withLines(honest, (line) => (line.part === 'offer' ? undefined : line)))).toEqual([
      'still-deliverable',
    ])
  })

  test('of a hub that does not tell what waits is not held against it', async () => {
    const isOfInbox = ({ part }: AccountLine): boolean => part === 'inbox' || part === 'open' || part === 'offer'

    expect(await found(withLines(honest, (line) => (isOfInbox(line) ? undefined : line)))).toEqual([])
  })

  test('in which a result was read that no reply carried', async () => {
    const { deliveryId } = first('result')
    const offer = first('offered', ({ carries }) => carries.includes(deliveryId))

    expect(await found(instead(offer, { ...offer, carries: [] }))).toEqual(['offered-once'])
    const events = historyOf(honest).filter((one) => !('offerId' in one) || one.offerId !== offer.offerId)
    expect(await found(withHistory(honest, events))).toEqual(['offered-once'])
  })

  test('with an entry that is not there any more', async () => {
    const added = first('entry_added')

    const account = withLines(honest, (line) =>
      line.part === 'entry' && line.deliveryId === added.deliveryId ? undefined : line,
    )

    expect(await found(account)).toEqual(['history-complete'])
  })

  test('with a gap in the log of an agent', async () => {
    const account = withLines(honest, (line) => (line.part === 'log' && line.seq === 1 ? undefined : line))

    expect(await found(account)).toEqual(['log-sequence'])
  })

  test('in which a turn is not numbered one above the turn before it', async () => {
    const account = withLines(honest, (line) =>
      line.part === 'agent' && line.agent.no === 1
        ? { ...line, agent: { ...line.agent, tasks: line.agent.tasks.map((task) => ({ ...task, turn: 2 })) } }
        : line,
    )

    expect(await found(account)).toContain('one-outcome')
  })

  test('with another text than was accepted', async () => {
    const account = withLines(honest, (line) =>
      line.part === 'entry' && line.result !== undefined
        ? { ...line, result: { ...line.result, textHash: '0'.repeat(64) } }
        : line,
    )

    expect(await found(account)).toEqual(['same-result'])
  })

  test.each([{ machine: 'another' }, { usage: { inputTokens: 1, outputTokens: 1, costUsd: 999, durationMs: 1 } }])(
    'of a result with facts that are not those of its turn: %o',
    async (facts) => {
      const account = withLines(honest, (line) =>
        line.part === 'entry' && line.result !== undefined ? { ...line, result: { ...line.result, ...facts } } : line,
      )

      expect(await found(account)).toEqual(['same-facts'])
    },
  )

  test('is none where the end could not be applied and was told as that: its node has the result still', async () => {
    const result = first('result')
    const asTold = sha256('')
    const account = withLines(
      instead(result, { ...result, outcome: 'failed', reason: 'dead_letter', textHash: asTold }),
      (line) =>
        line.part === 'entry' && line.deliveryId === result.deliveryId && line.result !== undefined
          ? { ...line, result: { ...line.result, outcome: 'failed', textHash: asTold } }
          : line,
    )

    expect(await found(account)).toEqual([])
  })

  test('of a result that its node has otherwise', async () => {
    const attempts = honest.node.attempts.map((attempt) => ({ ...attempt, textHash: '0'.repeat(64) }))

    expect(await found({ ...honest, node: { ...honest.node, attempts } })).toEqual(['same-result'])
  })

  test('without a receipt', async () => {
    const receipts = honest.lines.filter((line) => line.part === 'receipt')
    const account = withLines(honest, (line) => (line === receipts.at(-1) ? undefined : line))

    const { violations } = await auditOf(account)
    expect(violations.map(({ check }) => check)).toContain('receipts')
    expect(violations.map(({ message }) => message).join()).toContain('is missing')
  })

  test('with a hole in the chain of receipts', async () => {
    const [, second] = historyOf(honest).filter((event) => event.type === 'receipt_taken')
    const account = withLines(honest, (line) =>
      line.part === 'receipt' && line.taskId === second?.taskId ? undefined : line,
    )

    const { violations } = await auditOf(account)
    const messages = violations.filter(({ check }) => check === 'receipts').map(({ message }) => message)
    expect(messages).toContainEqual(expect.stringMatching(/^the receipt before rcp_.* is missing$/))
  })

  test('with a receipt twice in the chain, or out of another chain', async () => {
    const [one, other] = historyOf(honest).filter((event) => event.type === 'attempt_made')
    if (one === undefined || other === undefined) throw new Error('the history has no two attempts')
    for (const previousHash of ['', `rcp_${'0'.repeat(64)}`]) {
      const { agentId, taskId, attemptId, epoch } = other
      const ref = { agentId, taskId, attemptId, epoch }
      const signed = await receiptOf(honest.key, ref, { text: 'answer 1', previousHash })
      const account = withLines(honest, (line) => {
        if (line.part !== 'receipt' || line.taskId !== taskId) return line
        return { ...line, receiptId: signed.receiptId, envelope: Buffer.from(signed.envelope).toString('base64') }
      })

      const { violations } = await auditOf(account)
      const messages = violations.filter(({ check }) => check === 'receipts').map(({ message }) => message)
      const broken =
        previousHash === '' ? /^two receipts of .* follow the beginning$/ : /^the receipt before .* is missing$/
      expect(messages).toContainEqual(expect.stringMatching(broken))
    }
  })

  test('with a receipt that somebody else signed', async () => {
    const forger = await generateKey()
    const { agentId, taskId } = first('result')
    const { attemptId, epoch } = first('attempt_made')
    const forged = await receiptOf(
      forger,
      { agentId, taskId, attemptId, epoch },
      { text: 'answer 0', previousHash: '' },
    )
    const account = withLines(honest, (line) => {
      if (line.part !== 'receipt' || line.taskId !== taskId) return line
      return { ...line, envelope: Buffer.from(forged.envelope).toString('base64') }
    })

    expect(await found(account)).toEqual(['receipts'])
  })

  test('with a receipt of another machine that had the task before', async () => {
    const other = await generateKey()
    const made = first('attempt_made')
    const { agentId, taskId } = made
    const before = { agentId, taskId, attemptId: 'att_before' }
    const declined: HistoryEvent = { ...before, type: 'attempt_became', phase: 'declined', seq: 0, atMs: 1 }
    const events = historyOf(honest).flatMap((one): readonly HistoryEvent[] =>
      one.seq === made.seq
        ? [{ ...made, ...before, peerId: peerIdOf(other), epoch: made.epoch - 1 }, declined, one]
        : [one],
    )
    const forged = await receiptOf(
      other,
      { agentId, taskId, attemptId: made.attemptId, epoch: made.epoch },
      { text: 'answer 0', previousHash: '' },
    )
    const withBefore = withLines(withHistory(honest, events), (line) => {
      if (line.part === 'receipt' && line.taskId === taskId) {
        return { ...line, envelope: Buffer.from(forged.envelope).toString('base64'), receiptId: forged.receiptId }
      }
      if (line.part !== 'agent' || line.agent.agentId !== agentId) return line
      const tasks = line.agent.tasks.map((task) => ({
        ...task,
        attempts: task.attempts.flatMap((attempt) => [
          {
            ...attempt,
            attemptId: 'att_before',
            peerId: peerIdOf(other),
            epoch: made.epoch - 1,
            phase: 'declined' as const,
          },
          attempt,
        ]),
      }))
      return { ...line, agent: { ...line.agent, tasks } }
    })

    const { violations } = await auditOf(withBefore)
    const messages = violations.filter(({ check }) => check === 'owner').map(({ message }) => message)
    expect(messages).toEqual([expect.stringContaining(`is signed by ${peerIdOf(other)}`)])
  })

  test('in which a running task has been silent for too long', async () => {
    const account = withLines(honest, (line) => (line.part === 'turn' ? { ...line, silentMs: 400_000 } : line))

    const { violations } = await auditOf(account)
    expect(violations).toMatchObject([{ check: 'silence' }])
    expect(violations[0]?.agentId).toMatch(/^agt_/)
  })

  test('in which a lost task was told to nobody', async () => {
    const result = first('result')
    const ended = first('attempt_became', ({ phase }) => phase === 'ended')
    const events = historyOf(honest).flatMap((one): readonly HistoryEvent[] => {
      if (one.seq === result.seq) return []
      return one.seq === ended.seq ? [{ ...ended, phase: 'lost' }] : [one]
    })

    expect(await found(withHistory(honest, events))).toContain('loss-told')
  })

  test('in which a task that was given up is revived', async () => {
    const claimed = first('attempt_became', ({ phase }) => phase === 'claimed')
    const account = withHistory(
      honest,
      historyOf(honest).flatMap((one): readonly HistoryEvent[] =>
        one.seq === claimed.seq ? [{ ...claimed, phase: 'superseded' }, claimed] : [one],
      ),
    )

    expect(await found(account)).toContain('left-behind')
  })

  test('in which one decision has two dates', async () => {
    const account = withLines(honest, (line) =>
      line.part === 'entry' && line.result !== undefined ? { ...line, atMs: line.atMs + 1 } : line,
    )

    expect(await found(account)).toEqual(['one-reading'])
  })
})
