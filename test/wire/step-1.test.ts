import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { decodeRecord } from '../../src/core/record-json.ts'
import { decodeHandshake } from '../../src/wire/handshake-codec.ts'
import {
  decodeAddressRecord,
  decodeInvitePayload,
  decodeIssuerCertificate,
  decodeMembership,
  decodeProcessCertificate,
  decodeReceipt,
  decodeRevocations,
} from '../../src/wire/record-codec.ts'
import { decodeRoster } from '../../src/wire/roster-codec.ts'
import { decodeFrame } from '../../src/wire/session-codec.ts'
import { decodeWork } from '../../src/wire/work-codec.ts'

/** What the first version sent, made by its encoders and frozen: a line for each message, with the value that was meant. */
const frozen = join(import.meta.dirname, '../fixtures/wire-1')
const current = join(import.meta.dirname, '../../src/wire/rev1')

const decoders: Readonly<Record<string, (bytes: Uint8Array) => unknown>> = {
  frame: decodeFrame,
  work: decodeWork,
  handshake: (bytes) => decodeHandshake(bytes),
  roster: decodeRoster,
  membership: decodeMembership,
  issuer_certificate: decodeIssuerCertificate,
  process_certificate: decodeProcessCertificate,
  revocations: decodeRevocations,
  address_record: decodeAddressRecord,
  receipt: decodeReceipt,
  invite: decodeInvitePayload,
}

interface Line {
  readonly type: string
  readonly hex: string
  readonly value: unknown
}

function linesOf(family: string): readonly Line[] {
  const lines = readFileSync(join(frozen, `${family}.jsonl`), 'utf8')
    .trim()
    .split('\n')
  return lines.map((line) => JSON.parse(line) as Line)
}

/** A field of a number that no version knows, behind a message: what a later version adds. */
const unknownField = Buffer.from('fa7f0568656c6c6f', 'hex')

describe('a message of the first version', () => {
  test.each(Object.keys(decoders))('of the family %s is read as it was meant', (family) => {
    const decode = decoders[family] ?? (() => undefined)
    const lines = linesOf(family)

    for (const { type, hex, value } of lines) {
      const meant = decodeRecord<object>(new TextEncoder().encode(JSON.stringify(value)))
      const bytes = Buffer.from(hex, 'hex')
      expect(decode(bytes), type).toMatchObject(meant)
      expect(decode(Buffer.concat([bytes, unknownField])), `${type} with an unknown field`).toMatchObject(meant)
    }
    expect(lines.length).toBeGreaterThan(2)
  })

  test('is of each family that was frozen', () => {
    const families = readdirSync(frozen).filter((name) => name.endsWith('.jsonl'))

    expect(families.map((name) => name.slice(0, -'.jsonl'.length)).sort()).toEqual(Object.keys(decoders).sort())
  })
})

/** Every field by message and number, as `label type name`. */
function fieldsOf(folder: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>()
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.proto'))) {
    const scopes: string[] = []
    for (const line of readFileSync(join(folder, file), 'utf8').split('\n')) {
      const opened = /^\s*(message|enum|oneof)\s+(\w+)\s*\{/.exec(line)
      const field = /^\s*(optional |repeated )?([\w.]+)\s+(\w+)\s*=\s*(\d+)/.exec(line)
      if (field !== null && scopes.length > 0) {
        const messages = scopes.filter((scope) => !scope.startsWith('oneof ')).join('/')
        fields.set(`${file}: ${messages} ${field[4]}`, `${field[1] ?? ''}${field[2]} ${field[3]}`)
      }
      if (opened !== null && !line.includes('}')) scopes.push(`${opened[1]} ${opened[2]}`)
      else if (/^\s*\}/.test(line)) scopes.pop()
    }
  }
  return fields
}

test('no field that the first version reads has another meaning now: what this version sends it understands', () => {
  const before = fieldsOf(frozen)
  const now = fieldsOf(current)

  const changed = [...before].filter(([field, meaning]) => now.get(field) !== meaning)

  expect(before.size).toBeGreaterThan(150)
  expect(changed).toEqual([])
})
