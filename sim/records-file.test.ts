import { expect, test } from 'vitest'
import type { StoreOperation } from '../src/ports/store.ts'
import { MemoryDisk } from '../src/store/memory-disk.ts'
import { SeededRandom } from './random.ts'
import { RecordsFile } from './records-file.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const textOf = (value: Uint8Array | undefined): string | undefined => value && new TextDecoder().decode(value)

test('each disk in a file has its own records, in key order, as last written', () => {
  const file = new RecordsFile()
  const [one, other] = [new MemoryDisk(undefined, file.disk()), new MemoryDisk(undefined, file.disk())]
  one.apply(['b/2', 'a/1', 'b/1', 'b_1'].map((key) => ({ type: 'put', key, value: bytes(key) })))
  one.apply([
    { type: 'put', key: 'b/2', value: bytes('anew') },
    { type: 'delete', key: 'a/1' },
  ])
  other.apply([{ type: 'put', key: 'b/1', value: new Uint8Array() }])

  expect(one.keys()).toEqual(['b/1', 'b/2', 'b_1'])
  expect(one.keys('b/', 'b/\x7f')).toEqual(['b/1', 'b/2'])
  expect(one.read('b/2')).toEqual(bytes('anew'))
  expect(one.read('a/1')).toBeUndefined()
  expect(other.entries()).toEqual([{ key: 'b/1', value: new Uint8Array() }])
  file.close()
})

test('a disk in a file reads the same, however much waits to be written', () => {
  const file = new RecordsFile()
  const [inFile, inMemory] = [new MemoryDisk(undefined, file.disk()), new MemoryDisk()]
  const random = new SeededRandom(1, 'records')
  for (let step = 0; step < 120_000; step++) {
    const key = `k/${random.int(0, 59_999)}`
    const batch: readonly StoreOperation[] = [
      random.chance(0.2) ? { type: 'delete', key } : { type: 'put', key, value: bytes(String(step)) },
    ]
    inFile.apply(batch)
    inMemory.apply(batch)
  }
  const long = new Uint8Array(3_000_000).fill(7)
  for (const disk of [inFile, inMemory]) disk.apply([{ type: 'put', key: 'k/long', value: long }])
  const keys = Array.from({ length: 60_000 }, (_, index) => `k/${index}`)

  expect(keys.filter((key) => textOf(inFile.read(key)) !== textOf(inMemory.read(key)))).toEqual([])
  expect(inFile.keys('k/1', 'k/3')).toEqual(inMemory.keys('k/1', 'k/3'))
  expect(Buffer.compare(inFile.read('k/long') ?? bytes(''), long)).toBe(0)
  file.close()
})
