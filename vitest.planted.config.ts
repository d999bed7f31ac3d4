import { readFileSync } from 'node:fs'
import process from 'node:process'
import { defineConfig, mergeConfig } from 'vitest/config'
import base from './vitest.config.ts'

const root = import.meta.dirname
/** A JSON file of the sources that a planted bug changes: what `plant` gives. */
const planted = JSON.parse(readFileSync(process.env['NFLTR_PLANTED'] ?? '', 'utf8')) as Record<string, string>

/** The tests as they are, over sources with a bug in them. */
export default mergeConfig(
  base,
  defineConfig({
    root,
    plugins: [
      {
        name: 'planted-bug',
        enforce: 'pre',
        load: (id: string) => planted[id.split('?', 1)[0]?.slice(root.length + 1) ?? ''],
      },
    ],
  }),
)
