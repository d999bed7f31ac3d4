import { expect, test } from 'vitest'
import { MemoryDisk } from '../src/store/memory-disk.ts'
import { RecordsFile } from './records-file.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

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
