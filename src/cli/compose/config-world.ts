import { changeSetting, knownKey, resolveSettings } from '../../config/settings.ts'
import type { CredentialKind } from '../../ports/home.ts'
import { loadConfigText, saveConfigText } from '../../store/home/config-file.ts'
import { openHome } from '../../store/home/home.ts'
import type { ConfigWorld } from '../commands/config.ts'
import type { Context } from '../compose.ts'
import { checkAddresses } from './address-settings.ts'

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
      const { key, value } = options
      const text = changeSetting(await loadConfigText(paths), { key, value })
      const changed = resolveSettings({ fileText: text }).find((setting) => setting.key === key)
      if (changed !== undefined) checkAddresses(changed.key, changed.value, 'the command line')
      await saveConfigText(paths, text)
      return changed?.value
    },
    list: settings,
    addCredential: (options) =>
      homeOf(options).credentials.save(options.kind.replace('-', '_') as CredentialKind, options.secret),
  }
}
