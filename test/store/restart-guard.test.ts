import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { RestartGuard, stormPauseMs } from '../../src/store/restart-guard.ts'

const root = mkdtempSync(join(tmpdir(), 'nfltr-guard-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let dir = ''
let nowMs = 0
beforeEach(() => {
  dir = mkdtempSync(join(root, 'store-'))
  nowMs = 1_700_000_000_000
})

function begin(isAskedFor = false): RestartGuard {
  return RestartGuard.begin(dir, { wallMs: () => nowMs, isAskedFor, command: 'nfltr hub serve' })
}

function die(times: number, everyMs: number): void {
  for (let time = 0; time < times; time++) {
    const guard = begin()
    guard.ready()
    guard.died(`The store failed (${time + 1}).`)
    nowMs += everyMs
  }
}

describe('a process on one store', () => {
  test('says why it ends also where its end cannot be noted', () => {
    const guard = begin()
    rmSync(dir, { recursive: true })

    expect(() => {
      guard.ready()
      guard.died('The disk was full.')
    }).not.toThrow()
  })

  test('that died three times within a minute stays down, with the reason and the command', () => {
    die(3, 10_000)

    expect(() => begin()).toThrow(
      expect.objectContaining({
        code: 'restart_storm',
        message: expect.stringContaining('The store failed (3).'),
        hint: expect.stringContaining('nfltr hub serve'),
      }),
    )
    nowMs += 300_000
    expect(() => begin()).toThrow(expect.objectContaining({ code: 'restart_storm' }))
  })

  test('that died before it was ready, without a word, died all the same', () => {
    for (let time = 0; time < 3; time++) begin()

    expect(() => begin()).toThrow(expect.objectContaining({ message: expect.stringContaining('before it was ready') }))
  })

  test('that was killed while it served may start as often as it likes', () => {
    for (let time = 0; time < 20; time++) begin().ready()

    expect(() => begin()).not.toThrow()
  })

  test('that died more seldom, or ended in order in between, is started again', () => {
    die(5, 31_000)
    expect(() => begin().ended()).not.toThrow()
    die(2, 1_000)
    begin().ended()
    die(2, 1_000)

    expect(() => begin()).not.toThrow()
  })

  test('is tried again when a person asks for it, and by itself after a long while', () => {
    die(3, 1_000)
    expect(() => begin(true).ended()).not.toThrow()
    die(3, 1_000)
    nowMs += stormPauseMs + 1
    expect(() => begin()).not.toThrow()
  })

  test('is not kept down by a file that nobody can read', () => {
    for (const text of ['', 'null', '{"deaths":7}', '{"deaths":[null,{}],"open":{"atMs":"x"}}']) {
      writeFileSync(join(dir, 'starts.json'), text)
      expect(() => begin().ended()).not.toThrow()
    }
  })
})
