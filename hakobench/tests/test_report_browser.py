"""The page in a real browser: it opens from a file, sorts, changes its theme, fits a phone. Needs Debian's chromium.

Screenshots for people go to build/report/screenshots.
"""

import pathlib
import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

import report_recordings
from hakobench import record
from hakobench.project import ROOT
from hakobench.report import history, page

SCREENSHOTS = ROOT / "build" / "report" / "screenshots"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1280,1000",
)  # fmt: skip


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing; tools/setup installs it"
    return found


@pytest.fixture(scope="module")
def page_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    report_recordings.write_history(folder)
    recordings, remarks = history.read_all(folder)
    newest = history.newest(recordings)
    path = folder / "page.html"
    path.write_text(page.render(newest, history.collect(newest, recordings, remarks)), encoding="utf-8")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    return path.as_uri()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = _program("chromium")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(_program("chromedriver")))
    yield chrome
    chrome.quit()


@pytest.fixture
def chrome(started: webdriver.Chrome, page_url: str) -> webdriver.Chrome:
    """The page, freshly opened in a desktop window with a light system theme."""
    _window(started, 1280, 1000)
    _system_theme(started, "light")
    started.get("about:blank")
    started.get_log("browser")
    started.get(page_url)
    started.execute_script("localStorage.clear()")
    started.get(page_url)
    return started


def _window(chrome: webdriver.Chrome, width: int, height: int, phone: bool = False) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def _system_theme(chrome: webdriver.Chrome, theme: str) -> None:
    chrome.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )


def _background(chrome: webdriver.Chrome) -> str:
    return chrome.execute_script("return getComputedStyle(document.body).backgroundColor")


def _screenshots(chrome: webdriver.Chrome, name: str) -> list[pathlib.Path]:
    """Takes one screenshot of each section."""
    paths = []
    for section in chrome.find_elements(By.CSS_SELECTOR, "main > section"):
        chrome.execute_script("arguments[0].scrollIntoView()", section)
        path = SCREENSHOTS / f"{name}-{section.get_attribute('id')}.png"
        assert chrome.save_screenshot(str(path))
        paths.append(path)
    return paths


def _head(chrome: webdriver.Chrome, table: str, text: str) -> WebElement:
    heads = chrome.find_elements(By.CSS_SELECTOR, f"#{table} thead th")
    return next(head for head in heads if head.text.split(" ")[0] == text)


def _column(chrome: webdriver.Chrome, head: WebElement) -> list[str]:
    return chrome.execute_script(
        "const [head] = arguments; return [...head.closest('table').tBodies[0].rows]"
        ".map(row => row.cells[head.cellIndex].dataset.value)",
        head,
    )


def test_it_opens_from_a_file_without_errors_and_without_requests(chrome: webdriver.Chrome, page_url: str) -> None:
    assert chrome.find_element(By.TAG_NAME, "h1").text == "Suite synthetic"
    assert chrome.get_log("browser") == []
    asked = chrome.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [address for address in asked if not address.startswith("data:")] == []
    assert len(chrome.find_elements(By.CSS_SELECTOR, "svg")) > 25 * 3
    assert len(_screenshots(chrome, "light")) == len(chrome.find_elements(By.CSS_SELECTOR, "main > section")) >= 9


def test_a_click_on_a_head_sorts_by_number_both_ways_and_back(chrome: webdriver.Chrome) -> None:
    head = _head(chrome, "speed", "glibc")
    before = _column(chrome, head)
    assert "" in before  # glibc failed in one row
    button = head.find_element(By.TAG_NAME, "button")
    numbers = sorted(float(value) for value in before if value)
    assert [str(value) for value in numbers] != sorted(map(str, numbers))  # sorted as text they would have another order
    button.click()
    up = _column(chrome, head)
    assert ([float(value) for value in up[:-1]], up[-1]) == (numbers, "")
    assert head.get_attribute("aria-sort") == "ascending"
    button.click()
    down = _column(chrome, head)
    assert ([float(value) for value in down[:-1]], down[-1]) == (numbers[::-1], "")
    assert head.get_attribute("aria-sort") == "descending"
    button.click()
    assert _column(chrome, head) == before
    assert head.get_attribute("aria-sort") == "none"


def test_the_keyboard_sorts_and_only_one_head_is_marked(chrome: webdriver.Chrome) -> None:
    first, second = _head(chrome, "memory", "row"), _head(chrome, "memory", "tcmalloc")
    first.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    names = _column(chrome, first)
    assert names.index("mt-t2-r0") < names.index("mt-t16-r0")  # numbers in names count as numbers
    assert names[0] == "app-16-32768"
    second.find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    values = [float(value) for value in _column(chrome, second)]
    assert values == sorted(values)
    marked = chrome.find_elements(By.CSS_SELECTOR, "#memory th[aria-sort]:not([aria-sort=none])")
    assert [head.text for head in marked] == [second.text]


def test_raw_rows_failures_and_libraries_sort_too(chrome: webdriver.Chrome) -> None:
    chrome.execute_script("for (const one of document.querySelectorAll('#raw details')) one.open = true")
    group = chrome.find_element(By.ID, "raw.mt-t2-r90.tcmalloc")
    heads = group.find_elements(By.CSS_SELECTOR, "thead th")
    shown = "return [...arguments[0].closest('table').tBodies[0].rows].map(one => one.cells[2].textContent)"
    values = [float(value) for value in chrome.execute_script(shown, heads[2])]
    assert values != sorted(values)  # in the order of the rounds
    heads[2].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert [float(value) for value in chrome.execute_script(shown, heads[2])] == sorted(values)
    assert heads[2].get_attribute("aria-sort") == "ascending"
    names = "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent.trim())"
    for section, column in (("failures", 2), ("libraries", 1)):
        cells = f"#{section} tbody tr > :nth-child({column})"
        button = chrome.find_element(By.CSS_SELECTOR, f"#{section} thead th:nth-child({column}) button")
        before = chrome.execute_script(names, cells)
        button.send_keys(Keys.ENTER)
        assert chrome.execute_script(names, cells) == sorted(before)
        button.send_keys(Keys.ENTER)
        assert chrome.execute_script(names, cells) == sorted(before, reverse=True) != sorted(before)


def test_the_theme_follows_the_system_until_the_button_is_used(chrome: webdriver.Chrome) -> None:
    light = _background(chrome)
    _system_theme(chrome, "dark")
    dark = _background(chrome)
    assert light != dark
    button = chrome.find_element(By.ID, "theme")
    assert button.text == "Light theme"
    button.click()
    assert (_background(chrome), button.text) == (light, "Dark theme")
    chrome.refresh()
    assert _background(chrome) == light
    chrome.find_element(By.ID, "theme").click()
    assert _background(chrome) == dark
    fill = "return getComputedStyle(document.querySelector('.map svg text')).fill"
    assert chrome.execute_script(fill) == "rgb(230, 232, 235)"
    _screenshots(chrome, "dark")
    assert chrome.get_log("browser") == []


def test_a_figure_leads_to_its_raw_rows(chrome: webdriver.Chrome) -> None:
    details = chrome.find_element(By.ID, "raw.mt-t2-r90")
    assert details.get_attribute("open") is None
    link = chrome.find_element(By.CSS_SELECTOR, "#speed a[href='#raw.mt-t2-r90.tcmalloc']")
    chrome.execute_script("arguments[0].click()", link)
    group = chrome.find_element(By.ID, "raw.mt-t2-r90.tcmalloc")
    chrome.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert details.get_attribute("open") is not None
    assert "LD_PRELOAD=" in group.find_element(By.TAG_NAME, "pre").text
    assert len(group.find_elements(By.CSS_SELECTOR, "tbody tr")) == 5
    top = chrome.execute_script("return arguments[0].getBoundingClientRect().top", group)
    assert 0 <= top < 1000


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_only_tables_and_maps_scroll_sideways(chrome: webdriver.Chrome, width: int) -> None:
    _window(chrome, width, 740, phone=width < 768)
    chrome.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
    assert chrome.execute_script("return innerWidth") == width
    outside = chrome.execute_script(
        "return [...document.querySelectorAll('main *')].filter(one => !one.closest('.scroll, svg')"
        " && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 120))"
    )
    assert outside == []
    if width == 360:
        chrome.execute_script("for (const one of document.querySelectorAll('details')) one.open = false")
        _screenshots(chrome, "phone")


def test_on_a_phone_the_page_is_six_screens_and_folds_open(chrome: webdriver.Chrome) -> None:
    _window(chrome, 390, 844, phone=True)
    chrome.refresh()
    height = chrome.execute_script("return document.documentElement.scrollHeight")
    assert height <= 6 * 844
    _screenshots(chrome, "phone-folded")
    folds = chrome.find_elements(By.CSS_SELECTOR, "details.fold")
    assert [fold.get_attribute("open") for fold in folds] == [None] * len(folds)
    chrome.find_element(By.CSS_SELECTOR, "#tables summary").click()
    assert chrome.find_element(By.ID, "speed").is_displayed()
    box = chrome.find_element(By.CSS_SELECTOR, "#tables .scroll")
    assert "more-right" in box.get_attribute("class")
    chrome.execute_script("arguments[0].scrollLeft = arguments[0].scrollWidth", box)
    chrome.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert "more-right" not in box.get_attribute("class")
    chrome.execute_script("location.hash = 'rss'")
    chrome.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert chrome.find_element(By.CSS_SELECTOR, "#rss > details").get_attribute("open") is not None


def test_figures_can_be_shown_as_multiples_of_any_allocator(chrome: webdriver.Chrome) -> None:
    rows = (
        "return [...document.querySelectorAll('#speed tbody tr')].map(row => ['less' in row.dataset,"
        " ...['glibc', 'tcmalloc'].map(name => row.querySelector(`td[data-of=${name}]`)).map(cell =>"
        " cell ? [Number(cell.dataset.value), cell.querySelector('a').textContent] : null)])"
    )
    before = chrome.execute_script(rows)
    select = Select(chrome.find_element(By.CSS_SELECTOR, "#relative select"))
    select.select_by_value("glibc")
    after = chrome.execute_script(rows)
    compared = 0
    for (less, glibc, other), (_, glibc_now, other_now) in zip(before, after, strict=True):
        if glibc and other:
            ratio = glibc[0] / other[0] if less else other[0] / glibc[0]
            assert glibc_now[1] == "1.00"
            assert abs(float(other_now[1]) - ratio) <= 0.0051
            compared += 1
        elif other:
            assert other_now[1] == "–"
    assert compared > 10
    assert any(less for less, *_ in before) and any(not less for less, *_ in before)
    select.select_by_value("")
    assert chrome.execute_script(rows) == before


# Texts of one picture must neither overlap nor be cut off by its edge.
CROWDED = """
const found = [];
for (const svg of document.querySelectorAll('.plot svg')) {
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
  boxes.forEach(([text, box], at) => {
    const x = Math.max(frame.left - box.left, box.right - frame.right);
    const y = Math.max(frame.top - box.top, box.bottom - frame.bottom);
    if (x > 1 || y > 1)
      found.push(svg.getAttribute('aria-label') + ': cut: ' + text);
    for (const [other, second] of boxes.slice(at + 1)) {
      const width = Math.min(box.right, second.right) - Math.max(box.left, second.left);
      const height = Math.min(box.bottom, second.bottom) - Math.max(box.top, second.top);
      if (width > 1 && height > 4) found.push(svg.getAttribute('aria-label') + ': ' + text + ' / ' + other);
    }
  });
}
return found;
"""


def test_no_label_is_cut_or_on_top_of_another(chrome: webdriver.Chrome) -> None:
    assert chrome.execute_script(CROWDED) == []


def test_the_check_for_crowded_labels_sees_some(chrome: webdriver.Chrome) -> None:
    chrome.execute_script(
        "const svg = document.querySelector('.plot svg'); const one = svg.querySelector('text');"
        "one.after(one.cloneNode(true)); const cut = one.cloneNode(true); cut.setAttribute('x', -20); svg.append(cut)"
    )
    found = chrome.execute_script(CROWDED)
    assert any(": cut: " in text for text in found) and any(" / " in text for text in found)


def test_a_recording_with_a_single_run_opens_without_errors(chrome: webdriver.Chrome, tmp_path: pathlib.Path) -> None:
    run = report_recordings.make_run(report_recordings.rows()[0], 0, "<b>&\"'", failure="</script>")
    recording = record.Recording(tmp_path / "one.csv", [run], [])
    path = tmp_path / "one.html"
    path.write_text(page.render(recording, history.collect(recording, [])), encoding="utf-8")
    chrome.get(path.as_uri())
    assert chrome.get_log("browser") == []
    assert chrome.find_element(By.CSS_SELECTOR, "#failures .wide").text == "</script>"
    assert chrome.find_element(By.CSS_SELECTOR, "#libraries tbody th").text == "<b>&\"'"
