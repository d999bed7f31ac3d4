import process from 'node:process'
import { createInterface } from 'node:readline'
import { NfltrError } from '../../../../src/core/errors.ts'
import { openHome } from '../../../../src/store/home/home.ts'

/** Claims each invite whose id comes in as a line, and says which one won it: `won` or the owner's fingerprint. */
const [home = '', peerId = ''] = process.argv.slice(2)
const book = openHome({ home, env: {} }).issuer

process.stdout.write('ready\n')
for await (const inviteId of createInterface({ input: process.stdin })) {
  try {
    await book.claim({ inviteId, peerId, fingerprint: `of ${peerId}`, nowMs: 1 })
    process.stdout.write('won\n')
  } catch (error) {
    if (!(error instanceof NfltrError) || error.code !== 'invite_used') throw error
    process.stdout.write(`${String(error.details['used_by'])}\n`)
  }
}
