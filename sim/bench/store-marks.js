/**
 * Loaded before the program (`--import`): notes when a record was handed to the disk and when it was there, one line each in
 * the file that the query of its own address names: key, "given" or "synced", and monotonic milliseconds. Nothing else changes.
 */
import { appendFileSync } from 'node:fs'
import { Level } from 'level'

const file = decodeURIComponent(new URL(import.meta.url).search.slice(1))
const watched = /^(?:node\/result\/|hub\/offer\/|hub\/event\/|hub\/entry\/)/
const batch = Level.prototype._batch

function note(keys, what) {
  if (keys.length === 0) return
  const now = Number(process.hrtime.bigint()) / 1e6
  appendFileSync(file, keys.map((key) => `${key} ${what} ${now}\n`).join(''))
}

if (file !== '') {
  Level.prototype._batch = async function marked(operations, options) {
    const keys = operations.flatMap(({ type, key }) => {
      const name = typeof key === 'string' ? key : Buffer.from(key).toString('latin1')
      return type === 'put' && watched.test(name) ? [name] : []
    })
    note(keys, 'given')
    await batch.call(this, operations, options)
    note(keys, 'synced')
  }
}
