import type { SettingKey } from '../../config/settings.ts'
import { NfltrError } from '../../core/errors.ts'
import { parseListenAddress, parsePeerAddress } from '../../mesh/addresses.ts'

/**
 * Reads the addresses of a setting as the mesh will; other settings are the schemas' to check.
 *
 * @param from where its value comes from: a variable, `config.json` or the command line
 * @param argument what names it there, where that is not the setting's own name
 * @throws {NfltrError} `invalid_argument`, naming the setting and where it comes from
 */
export function checkAddresses(key: SettingKey, value: unknown, from: string, argument: string = key): void {
  const parse = key === 'listen' ? parseListenAddress : key === 'peers' ? parsePeerAddress : undefined
  if (parse === undefined || !Array.isArray(value)) return
  for (const address of value) {
    try {
      parse(String(address))
    } catch (error) {
      if (!(error instanceof NfltrError)) throw error
      throw new NfltrError('invalid_argument', `${argument} of ${from} was refused: ${error.message}`, {
        hint: error.hint ?? `Correct ${argument}.`,
        details: { argument },
        cause: error,
      })
    }
  }
}
