import { changeSetting, knownKey, resolveSettings } from '../../config/settings.ts'
import type { CredentialKind } from '../../ports/home.ts'
import { loadConfigText, saveConfigText } from '../../store/home/config-file.ts'
import { openHome } from '../../store/home/home.ts'
import type { ConfigWorld } from '../commands/config.ts'
import type { Context } from '../compose.ts'

export function configWorld({ io, env }: Context): ConfigWorld {
  const homeOf = (options: { readonly home?: string }) => openHome({ ...options, env })
  const settings = async (options: { readonly home?: string }) =>
    resolveSettings({ env, fileText: await loadConfigText(homeOf(options).paths) })
  return {
    io,
    get: async (options) => {
      const key = knownKey(options.key, 'The command line')
      return (await settings(options)).find((setting) => setting.key === key)?.value
    },
    set: async (options) => {
      const { paths } = homeOf(options)
      await saveConfigText(
        paths,
        changeSetting(await loadConfigText(paths), { key: options.key, value: options.value }),
      )
    },
    list: settings,
    addCredential: (options) =>
      homeOf(options).credentials.save(options.kind.replace('-', '_') as CredentialKind, options.secret),
  }
}
