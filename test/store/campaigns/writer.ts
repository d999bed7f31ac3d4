import process from 'node:process'
import { openLevelStore } from '../../../src/store/level-store.ts'
import { put, testKeyspace } from '../../contracts/test-keyspace.ts'

/**
 * Writes until it is killed: eight writers, each batch two records that belong together. Every batch that is on disk is
 * told on standard output, one line each, before its writer goes on.
 */
const store = await openLevelStore(process.argv[2] ?? '', { keyspace: testKeyspace })
const round = process.argv[3] ?? ''

async function write(writer: number): Promise<void> {
  for (let no = 0; ; no++) {
    const id = `${round}-${writer}-${no}`
    await store.commit([put(`test/left/${id}`, id.repeat(20)), put(`test/right/${id}`, id.repeat(20))])
    await new Promise<void>((resolve) => process.stdout.write(`${id}\n`, () => resolve()))
  }
}

await Promise.all(Array.from({ length: 8 }, (_, writer) => write(writer)))
